// The step `charge-payment` as the mistakes get it wrong: a good compensation, and the database's address.
#pragma once

#include "shop.hpp"

#include <pqxx/pqxx>

#include <functional>
#include <string>
#include <utility>

namespace kit_test::mistakes {

class charging : public skald::compensatable_step<order>
{
public:
    explicit charging(std::function<std::string()> url) : url_{std::move(url)} {}

    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $1", o.cents);
    }

protected:
    std::string url() const { return url_(); }

    static void take_money(skald::step_context& ctx, order const& o)
    {
        ctx.sql("UPDATE wallet SET cents = cents - $1", o.cents);
    }

private:
    std::function<std::string()> url_;
};

}  // namespace kit_test::mistakes
