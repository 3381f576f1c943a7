// The shop with a payment provider: two processes of `payments` that call the program `gateway`, and what its ledger
// must say at the end.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/gateway_process.hpp"
#include "support/shop.hpp"

namespace skald::test {

class gateway_shop : public shop
{
public:
    static constexpr int order_count_in_round = 20;

    explicit gateway_shop(std::vector<std::string> of_gateway = {}) : gateway{at_one_port(std::move(of_gateway))} {}

    gateway_process gateway;
    service_process till_a{SKALD_FAULTY_PAYMENT_SERVICE, arguments(), variables(payments_db)};
    service_process till_b{SKALD_FAULTY_PAYMENT_SERVICE, arguments(), variables(payments_db)};

    /// `payments` itself stays away.
    void open_with_tills()
    {
        for (auto* one : {&orders, &shipping, &till_a, &till_b}) one->start();
        for (auto* one : {&orders, &shipping, &till_a, &till_b}) wait_until_started(*one);
        fill();
    }

    /// Starts again what a fault has ended.
    void look_after()
    {
        if (!gateway.process().is_running()) gateway.start();
    }

    /// 20 orders: a quarter finds nothing in stock, one in ten has no money.
    void place_round(int round)
    {
        for (int i = 0; i < order_count_in_round; ++i) {
            order_request const what{
                .customer = i % 10 == 1 ? "poor" : "ann", .sku = i % 4 == 0 ? "rare" : "lamp", .cents = 10 + i};
            REQUIRE(order(std::to_string(round) + '-' + std::to_string(i), what).status == 202);
        }
    }

    /// "key:step" of the calls that the process has and whose outcome is not known.
    std::map<std::string, std::string> fences_of(service_process const& till)
    {
        std::map<std::string, std::string> all;
        for (auto const& row : payments_db.ask("SELECT key || ':' || step, fence FROM skald.started WHERE in_doubt AND "
                                               "owner LIKE 'skald/payments/" +
                                               std::to_string(till.pid()) + "@%'"))
            all[row[0]] = row[1];
        return all;
    }

    /// Those of them that somebody else has taken over.
    std::set<std::string> taken_over(std::map<std::string, std::string> const& before)
    {
        std::set<std::string> all;
        for (auto const& row : payments_db.ask("SELECT key || ':' || step, fence FROM skald.started"))
            if (auto const was = before.find(row[0]); was != before.end() && was->second != row[1]) all.insert(row[0]);
        return all;
    }

    /// The other side's books and ours say the same, to the cent. `declined` charges moved nothing.
    void check_ledger()
    {
        std::map<std::string, std::pair<int, long>> per_order;  // charges, and what is left of them
        for (auto const& one : gateway.charges()) {
            if (one.at("status") == "declined") continue;
            auto& [charges, left] = per_order[one.at("reference")];
            ++charges;
            left += one.at("amount").get<long>() - one.at("refunded").get<long>();
        }
        long left_in_all = 0;
        for (auto const& [order, sums] : per_order) {
            CHECK_MESSAGE(sums.first == 1, order << " was charged " << sums.first << " times");
            left_in_all += sums.second;
        }
        for (auto const& row :
             orders_db.ask("SELECT id, CASE status WHEN 'confirmed' THEN cents ELSE 0 END FROM customer_order"))
            CHECK_MESSAGE(std::to_string(per_order[row[0]].second) == row[1], row[0]);
        CHECK(std::to_string(left_in_all) ==
              orders_db.value("SELECT coalesce(sum(cents), 0) FROM customer_order WHERE status = 'confirmed'"));
    }

private:
    static std::vector<std::string> at_one_port(std::vector<std::string> more)
    {
        more.insert(more.end(), {"--listen", "127.0.0.1:" + std::to_string(rig::find_free_port())});
        return more;
    }
    std::vector<std::string> arguments() const { return {"--gateway", "127.0.0.1:" + std::to_string(gateway.port())}; }
};

}  // namespace skald::test
