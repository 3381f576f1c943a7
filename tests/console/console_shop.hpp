// The order saga's services, stepped by the test, and a console that looks at their databases.
#pragma once

#include "console/application.hpp"
#include "support/stepped_shop.hpp"

#include <map>
#include <string>

namespace skald::test {

class console_shop : public stepped_shop
{
public:
    static inline std::string const ada = "0123456789abcdef0123456789abcdef", bob = "fedcba9876543210fedcba9876543210";

    /// ada is an operator, bob a viewer.
    console::settings given()
    {
        console::settings made;
        for (auto const* name : {"orders", "payments", "shipping"}) {
            made.services.push_back({name, at(name).db.url()});
            made.operating.push_back({name, at(name).db.url()});
        }
        made.tokens = "operator ada " + ada + "\nviewer bob " + bob + "\n";
        return made;
    }

    /// A saga whose charge the broker gave up on: parked at payments, and stuck.
    void park_charge(std::string const& key)
    {
        auto given_up = delivery_of(order_up_to("charge-payment", key));
        given_up.given_up = true;
        at("payments").process(given_up);
        run();
    }

    std::string parked_id() { return at("payments").db.one("SELECT max(id) FROM skald.parked"); }
};

using fields = std::multimap<std::string, std::string>;

/// A browser in which that person is signed in.
class visitor
{
public:
    visitor(console::application const& console, std::string token) : console_{&console}, token_{std::move(token)} {}

    console::response get(std::string const& path, fields const& query = {}) const
    {
        return console_->answer(asking("GET", path, query, {}));
    }

    /// With the key of a form that was loaded before.
    console::response post(std::string const& path, fields form) const
    {
        form.emplace("form_key", form_key());
        return console_->answer(asking("POST", path, {}, form));
    }

    console::response post_as_stranger(std::string const& path, fields const& form) const
    {
        return console_->answer(asking("POST", path, {}, form));
    }

    std::string form_key() const
    {
        auto const page = get("/act", {{"verb", "pause"}, {"saga", "orders\n\n1"}}).body;
        auto const at = page.find("name=\"form_key\" value=\"");
        return at == std::string::npos ? "none" : page.substr(at + 23, 64);
    }

private:
    console::request asking(std::string const& method, std::string const& path, fields const& query,
                            fields const& form) const
    {
        console::request asked{method, path, query, form};
        asked.header = [token = token_](std::string const& name) {
            return name == "Authorization" ? "Bearer " + token : std::string{};
        };
        return asked;
    }

    console::application const* console_;
    std::string token_;
};

inline bool says(console::response const& page, std::string const& text)
{
    return page.body.find(text) != std::string::npos;
}

}  // namespace skald::test
