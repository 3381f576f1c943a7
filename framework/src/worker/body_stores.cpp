#include "worker/body_stores.hpp"

#include "bodies/directory_bodies.hpp"

#include <skald/errors.hpp>

#include <string_view>

namespace skald::worker_detail {
namespace {

constexpr std::string_view directory_mark = "directory:";

bool shares_bodies(config const& settings)
{
    return settings.body_store != "database";
}

}  // namespace

runtime::body_rules body_rules_of(std::string const& service, config const& settings)
{
    bool const is_shared = shares_bodies(settings);
    return {settings.body_inline_max, service, is_shared,
            is_shared ? settings.body_store : "the database of " + service, settings.body_max};
}

void need_body_store(std::string const& service, config const& settings, detail::body_store_maker const& make)
{
    if (!settings.body_store.starts_with("s3:") || make) return;
    throw configuration_error{"SKALD_BODY_STORE=" + settings.body_store + ": the service " + service +
                              " has nothing that speaks S3: link skald::s3 and call service.bodies(skald::s3())"};
}

std::shared_ptr<ports::body_store> make_body_store(std::string const& service, std::string const& database,
                                                   config const& settings, detail::body_store_maker const& make)
{
    need_body_store(service, settings, make);
    auto const holder = service + '-' + database;
    if (!shares_bodies(settings)) return {};
    if (!settings.body_store.starts_with(directory_mark)) return make(settings, holder);
    return std::make_shared<bodies::directory_bodies>(settings.body_store.substr(directory_mark.size()), holder);
}

}  // namespace skald::worker_detail
