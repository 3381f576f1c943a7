#include "testing/stepped_process.hpp"

#include <chrono>
#include <utility>

namespace skald::testing::inner {

using namespace std::chrono_literals;

stepped_process::stepped_process(std::string service, runtime::registry const& steps, ports::store& store,
                                 ports::outbox& outbox, std::unique_ptr<ports::publisher> publisher,
                                 std::unique_ptr<ports::subscription> deliveries, core::logger& log,
                                 runtime::publish_options const& publishing)
    : service_{std::move(service)}, steps_{steps}, log_{log}, publisher_{std::move(publisher)},
      deliveries_{std::move(deliveries)}, executor_{service_, store, out_, log_, std::mt19937_64{1}},
      table_{200ms, {outbox}}, relay_{publishing, table_, *publisher_, stop_, log_, std::mt19937_64{1}}
{}

}  // namespace skald::testing::inner
