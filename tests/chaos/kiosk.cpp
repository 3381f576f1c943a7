#include "kiosk.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <skald/skald.hpp>

#include <pqxx/pqxx>

namespace order_storm {
namespace {

using skald::rig::pick;

std::string in_place_of_its_database(std::string const& url)
{
    return url.substr(0, url.rfind('/') + 1) + "kiosk";
}

order_saga::order sold(skald::rig::planned_order const& o)
{
    return {o.key, o.customer, o.sku, o.quantity, o.cents};
}

}  // namespace

kiosk::kiosk(std::string const& server, std::vector<skald::rig::planned_order> orders,
             std::chrono::duration<double> takes, std::uint64_t seed)
    : server_{server}, url_{in_place_of_its_database(server)}, orders_{std::move(orders)}, takes_{takes}, random_{seed}
{}

void kiosk::create_database() const
{
    pqxx::connection connection{server_};
    pqxx::nontransaction{connection}.exec("CREATE DATABASE kiosk");
}

bool kiosk::has_tables() const
{
    pqxx::connection connection{url_};
    return !pqxx::nontransaction{connection}.exec("SELECT to_regclass('skald.contention')")[0][0].is_null();
}

void kiosk::place_due()
{
    if (placed_ == orders_.size()) return;
    auto const due = opened_ + takes_ * (static_cast<double>(placed_) / static_cast<double>(orders_.size()));
    if (std::chrono::steady_clock::now() < due) return;
    auto const& next = orders_[placed_];
    try {
        pqxx::connection connection{url_};
        pqxx::work tx{connection};
        auto const seconds = placed_ % 2 == 0 ? 0 : pick(random_, 1, 8);
        skald::start(tx, order_saga::place_order, sold(next),
                     {.key = next.key, .deadline = std::chrono::seconds{seconds}});
        tx.commit();
    }
    catch (pqxx::failure const&) {
        return;  // the server is away; its key resolves a COMMIT in doubt
    }
    ++placed_;
}

bool kiosk::is_at_rest() const
try {
    if (placed_ < orders_.size()) return false;
    pqxx::connection connection{url_};
    return pqxx::nontransaction{connection}
               .exec("SELECT (SELECT count(*) FROM skald.saga WHERE finished_at IS NULL) + "
                     "(SELECT count(*) FROM skald.outbox)")[0][0]
               .as<int>() == 0;
}
catch (pqxx::failure const&) {
    return false;
}

std::vector<skald::rig::order_elsewhere> kiosk::ends() const
{
    std::vector<skald::rig::order_elsewhere> all;
    pqxx::connection connection{url_};
    pqxx::nontransaction tx{connection};
    for (auto const& one : orders_) {
        auto const found = tx.exec("SELECT status FROM skald.saga WHERE key = " + tx.quote(one.key));
        all.push_back({one, found.empty() ? "" : found[0][0].c_str()});
    }
    return all;
}

}  // namespace order_storm
