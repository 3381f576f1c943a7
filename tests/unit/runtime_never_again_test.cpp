// A handler's message that could not be sent again is parked before its handler runs: else its retry would stay in the
// outbox for good.
#include "core/foreign_message.hpp"
#include "runtime/task.hpp"
#include "transports/message_limits.hpp"

#include <doctest/doctest.h>

using namespace skald;

namespace {

core::message a_message()
{
    return {"books.on.paid", "m-1", "paid", "application/json", {{"tenant", "acme"}}, "{}"};
}

// Empty: it goes to its handler, which is none here.
std::string malformed(core::message m)
{
    ports::delivery d;
    d.handler = "paid";
    d.message = std::move(m);
    auto const t = runtime::route(std::move(d), "books", {});
    auto const& found = std::get<runtime::unreadable_message>(t.purpose);
    return found.reason == "malformed" ? found.why : "";
}

}  // namespace

TEST_CASE("a handler's message that could never be sent again is malformed, and says why")
{
    auto m = a_message();
    CHECK(malformed(m) == "");
    std::string says;
    SUBCASE("a header without a name")
    {
        m.headers.emplace_back("", "x");
        says = "a header has no name";
    }
    SUBCASE("a header's name that is too long")
    {
        m.headers.emplace_back(std::string(256, 'h'), "x");
        says = "its header's name has 256 bytes";
    }
    SUBCASE("a header's name that is too long as text")
    {
        m.headers.emplace_back(std::string(64, '\xff'), "x");
        says = "its header's name has 256 bytes";
    }
    SUBCASE("a content type that is too long")
    {
        m.content_type.assign(256, 'c');
        says = "its content type has 256 bytes";
    }
    SUBCASE("a queue for its reply that none can be")
    {
        m.headers.emplace_back(core::header::reply_to, std::string(256, 'q'));
        says = "its reply-to has 256 bytes";
    }
    SUBCASE("more headers than a frame holds")
    {
        for (int i = 0; i < 3; ++i) m.headers.emplace_back("h" + std::to_string(i), std::string(43'000, 'x'));
        says = "its headers need ";
    }
    SUBCASE("more headers than a frame holds, as text")
    {
        m.headers.emplace_back("h", std::string(33'000, '\xff'));
        says = "its headers need ";
    }
    CHECK_MESSAGE(malformed(m).starts_with("it could never be tried again: " + says), malformed(m));
}

TEST_CASE("what Skald adds to a message that is sent again makes none that is accepted too large")
{
    auto m = a_message();
    m.headers.emplace_back("h", "");
    auto& value = m.headers.back().second;
    while (transports::why_never_again(m).empty() && value.size() < 200'000) value.append(100, 'x');
    value.resize(value.size() - 100);
    m.id.clear();
    m.type.clear();
    auto const again = core::write_again(m, std::string(255, 'd'), {std::string(64, 's'), std::string(180, 'k')},
                                         std::string(255, 'i'), 1'000'000'000, 1'000'000'000);
    CHECK(transports::why_never_sent(again) == "");
    CHECK(transports::why_never_again(again) == "");  // or its second try would be its last
}
