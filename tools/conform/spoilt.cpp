#include "conform/spoilt.hpp"

#include "rabbitmq/topology.hpp"

#include <fmt/format.h>

#include <string_view>

namespace skald::conform {
namespace {

class spoiler
{
public:
    spoiler(std::string const& run, std::string const& service) : run_{run}, service_{service} {}

    spoilt_message& add(char const* what)
    {
        saga from;
        from.name = {"", fmt::format("{}-spoilt-{}", run_, made.size() + 1)};
        from.data = {{"cents", 1},     {"rejects_at", ""}, {"fails_at", ""},
                     {"waits_at", ""}, {"fails", 0},       {"marks", false}};
        auto& one = made.emplace_back(spoilt_message{.what = what, .message = from.message(service_, "charge")});
        one.message.headers.emplace_back("conform-id", one.message.id);
        return one;
    }

    void with_body(char const* what, std::string body) { add(what).message.body = std::move(body); }

    void with_header(char const* what, std::string_view name, std::string const& value)
    {
        for (auto& [known, text] : add(what).message.headers)
            if (known == name) text = value;
    }

    void without_header(char const* what, std::string_view name)
    {
        std::erase_if(add(what).message.headers, [&](auto const& one) { return one.first == name; });
    }

    std::vector<spoilt_message> made;

private:
    std::string run_, service_;
};

}  // namespace

std::vector<spoilt_message> make_spoilt(std::string const& run, std::string const& service)
{
    spoiler all{run, service};
    all.with_body("a body that is no JSON", "{\"cents\": 1");
    all.with_body("an empty body", "");
    all.with_body("a body that is not UTF-8", "{\"cents\": 1, \"name\": \"\xff\xfe\"}");
    all.with_body("a body with one name twice", R"({"cents": 1, "cents": 2})");
    all.with_body("a body with 65 levels", std::string(65, '[') + std::string(65, ']'));
    all.with_body("a body with a number of 65 bits", R"({"cents": 18446744073709551616})");
    all.with_body("a body with NUL in a text", R"({"cents": 1, "name": "\u0000"})");
    all.with_header("an itinerary beyond its end", "x-saga-itinerary",
                    "forward 3/2 charge@x=compensatable ship@x=pivot");
    all.with_header("a scope of 65 bytes", "x-saga-scope", std::string(65, 's'));
    all.with_header("a key without a step", "x-idempotency-key", "nothing");
    all.with_header("a home that is no name", "x-saga-home", "No Name");
    all.with_header("a home that is not UTF-8", "x-saga-home", "\xff\xfe");
    all.with_header("a home with NUL", "x-saga-home", std::string{"con\0form", 8});
    all.add("a home that is a table").form = wire_form::home_is_table;
    all.add("the type of another step").message.type = "ship";
    all.add("an empty type").message.type.clear();
    all.add("an attempt that is no number").message.headers.emplace_back("x-attempt", "first");
    all.without_header("no key", "x-idempotency-key");
    all.without_header("no scope", "x-saga-scope");
    auto& given_up = all.add("what the broker has given up");
    given_up.is_given_up = true;
    given_up.reason = "delivery_limit";
    given_up.message.headers.emplace_back("x-first-death-reason", given_up.reason);  // as RabbitMQ writes them
    given_up.message.headers.emplace_back("x-first-death-exchange", rabbitmq::exchange_name);
    return std::move(all.made);
}

}  // namespace skald::conform
