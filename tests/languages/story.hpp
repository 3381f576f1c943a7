// What comes to a service in a random story, and how its steps end.
#pragma once

#include "languages/cases.hpp"
#include "ports/transport.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace skald::test {

/// A delivery, and how its step ends if it runs.
struct arrival
{
    ports::delivery delivery;
    nlohmann::json ended = nlohmann::json::object();
    std::vector<std::string> published;  // by a step that is done: types
    std::string data;                    // what it makes of its data; empty: it stays as it came
};

/// Deliveries for a few sagas with one plan, so that they meet each other's records.
class story
{
    using json = nlohmann::json;

public:
    explicit story(std::uint_fast32_t seed) : random_{seed}, plan_{random_.itinerary()}
    {
        for (auto& one : plan_.steps)
            if (!random_.one_in(4)) one.service = this_service;
        for (auto const& one : plan_.steps)
            if (!random_.one_in(10)) retries_.emplace(one.name, json{{"attempts", random_.random().number(1, 4)}});
    }

    std::string sagas()
    {
        std::string made;
        for (auto const* const key : {"a", "b"})
            if (random_.random().coin())
                made += std::string{"INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', '"} +
                        key + "', 'place-order', '{}', '" + plan_.text() + "');";
        return made;
    }

    arrival next()
    {
        if (!before_.empty() && random_.one_in(4)) {
            auto again = before_[random_.random().number(0, before_.size() - 1)];
            if (random_.one_in(8)) again.delivery.message.body += ' ';  // the same key with another body
            return again;
        }
        arrival made = random_.one_in(8) ? own() : step();
        before_.push_back(made);
        return made;
    }

    /// What the service says of a step, by its name; nothing: it does not have it.
    std::optional<json> hosted(std::string const& step)
    {
        auto const found = retries_.find(step);
        if (found == retries_.end()) return std::nullopt;
        auto said = found->second;
        said["kind"] = kind_of(step);
        said["first_ms"] = said["longest_ms"] = 0;  // no random waits
        said["version"] = 2;
        if (said["kind"] != "retriable") said["deadline_ms"] = 4'000'000;
        return said;
    }

private:
    std::string kind_of(std::string const& step) const
    {
        static constexpr std::array names{"compensatable", "pivot", "retriable"};
        auto const found = std::ranges::find(plan_.steps, step, &core::itinerary_step::name);
        return names[static_cast<std::size_t>(found->kind)];
    }

    arrival step()
    {
        auto e = random_.envelope();
        e.saga = {"", random_.any_of("a", "b", "c")};
        e.definition = "place-order";
        e.itinerary = plan_;
        e.itinerary.position.index = random_.random().number(0, plan_.steps.size() - 1);
        e.itinerary.position.direction = core::direction::forward;
        if (e.itinerary.current().kind == step_kind::compensatable && random_.one_in(3))
            e.itinerary.position.direction = core::direction::back;
        e.version = random_.one_in(10) ? 3 : 1;
        for (auto* const time : {&e.saga_deadline, &e.step_deadline})  // long ago, or long from now
            if (*time) *time = **time + (random_.random().coin() ? -std::chrono::years{20} : std::chrono::years{60});
        // Long over, or not begun: in between, a wait is random.
        if (e.waits_since) *e.waits_since -= std::chrono::years{10};
        arrival made;
        made.delivery.message = random_.one_in(5) ? random_.message(e) : core::write_message(e, R"({"id":"1"})");
        made.delivery.message.body =
            random_.any_of(R"({"id":"1"})", R"({"id":"1"})", R"( {"id": "1", "cents": 1.50} )", R"({"a":1,"a":2})",
                           R"({"a":18446744073709551616})", "", "{", "\"\\u0000\"");
        made.delivery.given_up = random_.one_in(30);
        do made.ended = random_.ended(e);
        while (!is_possible(made.ended, e));
        made.ended.erase("version");
        if (random_.one_in(3)) made.data = R"({"id":"1","new":true})";
        if (random_.one_in(3)) made.published = {"charged", "rumour"};
        std::ranges::sort(made.delivery.message.headers);
        return made;
    }

    // A compensation only ends or fails; bodies that are kept apart are not read in SQL; and no step of the test ends
    // its own transaction.
    static bool is_possible(json const& ended, core::envelope const& e)
    {
        auto const end = ended.at("end").get<std::string>();
        if (end == "unrunnable") return ended["reason"] == "malformed";
        bool const is_back = e.itinerary.position.direction == core::direction::back;
        return !is_back || end == "done" || end == "failed";
    }

    // What Skald sends by itself.
    arrival own()
    {
        auto const key = random_.any_of("a", "b", "c");
        auto const home = random_.any_of("orders", "payments");
        auto const step = plan_.steps[random_.random().number(0, plan_.steps.size() - 1)].name;
        arrival made;
        auto& m = made.delivery.message;
        m.destination = this_service;
        m.headers = {{"x-idempotency-key", key + ":" + step}, {"x-saga-home", home}, {"x-saga-scope", ""}};
        json body;
        if (random_.random().coin()) {
            m.type = "skald.control";
            body = {{"id", "0190b0a0-0000-7000-8000-00000000000" + random_.random().text("0123456789", 1, 1)},
                    {"scope", ""},
                    {"key", key},
                    {"home", home},
                    {"action", random_.any_of("pause", "resume", "cancel", "close")},
                    {"by", "ada"},
                    {"requested_at", random_.time()},
                    {"reason", "she said so"},
                    {"another", 1}};
        }
        else if (random_.random().coin()) {
            m.type = "skald.progress";
            body = json::array({{{"scope", ""},
                                 {"key", key},
                                 {"step", step},
                                 {"service", "shipping"},
                                 {"status", random_.any_of("completed", "rejected", "parked", "retrying")},
                                 {"attempts", 1},
                                 {"at", random_.time()},
                                 {"saga", "running"}}});
        }
        else {
            m.type = "skald.expire";
            body = json::array(
                {{{"scope", ""}, {"key", key}, {"home", home}, {"steps", {step}}, {"ended_at", random_.time()}}});
        }
        if (random_.one_in(5)) spoil(body);
        m.body = body.dump();
        if (random_.one_in(20)) m.body.pop_back();
        return made;
    }

    void spoil(json& body)
    {
        auto& of = body.is_array() ? body[0] : body;
        auto it = of.begin();
        std::advance(it, random_.random().number(0, of.size() - 1));
        if (random_.random().coin()) of.erase(it);
        else if (body.is_object()) *it = random_.any_of("", "x", "A b");
        else if (random_.random().coin()) body = json::array();
        else body = json::array({1});
    }

    random_cases random_;
    core::itinerary plan_;
    std::map<std::string, json> retries_;
    std::vector<arrival> before_;
};

}  // namespace skald::test
