#include <doctest/doctest.h>

#include "entry/idempotency_key.hpp"

using namespace skald::entry_detail;

TEST_CASE("a quoted key and a bare one are the same key")
{
    struct row
    {
        std::string header, key;
    };
    for (auto const& r : {
             row{R"("8e03978e-40d5-43dd-bc93-6894a57f9324")", "8e03978e-40d5-43dd-bc93-6894a57f9324"},
             row{"8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"},
             row{"k", "k"},
             row{"  \t\"k\" ", "k"},
             row{"order:42", "order:42"},
             row{R"("order:42")", "order:42"},
             row{R"("a b")", "a b"},
             row{R"(" ")", " "},
             row{R"("a\"b\\c")", R"(a"b\c)"},
             row{"aGVsbG8/d29ybGQ+Cg==", "aGVsbG8/d29ybGQ+Cg=="},
             row{R"("K")", "K"},  // case matters
             row{R"("a, b; c")", "a, b; c"},
             row{R"("k";v=1)", "k"},
             row{R"("k"; v=1;w;x="a;\"b";y=?1;*z=:YQ==:)", "k"},
             row{"k;v=1", "k"},
         }) {
        auto const& [header, key] = r;
        CAPTURE(r.header);
        auto const parsed = parse_idempotency_key(header);
        CHECK(parsed.refusal == "");
        CHECK(parsed.value == key);
    }
}

TEST_CASE("a header that isn't one key is refused with its reason")
{
    struct row
    {
        std::string header, reason;
    };
    for (auto const& r : {
             row{"", "missing"},
             row{" \t ", "missing"},
             row{R"("")", "is empty"},
             row{R"("";v=1)", "is empty"},
             row{R"("k)", "badly quoted"},
             row{R"(")", "badly quoted"},
             row{R"("k\")", "badly quoted"},
             row{R"("k\n")", "badly quoted"},
             row{R"(k")", "badly quoted"},
             row{R"(a\b)", "badly quoted"},
             row{R"("k"x)", "one key"},
             row{R"("k" x)", "one key"},
             row{R"("k" ;v=1)", "one key"},
             row{R"("k""l")", "one key"},
             row{R"("k", "l")", "one key"},
             row{"k, l", "one key"},
             row{"k l", "one key"},
             row{R"("k";)", "one key"},
             row{R"("k";V=1)", "one key"},
             row{R"("k";v=)", "one key"},
             row{R"("k";v="x)", "one key"},
             row{";v=1", "one key"},
             row{",", "one key"},
             row{"\"k\x01\"", "printable ASCII"},
             row{"k\x7f", "printable ASCII"},
             row{"\"k\tl\"", "printable ASCII"},
             row{"sch\xc3\xb6n", "printable ASCII"},
             row{std::string("k\0l", 3), "printable ASCII"},
         }) {
        auto const& [header, reason] = r;
        CAPTURE(r.header);
        auto const parsed = parse_idempotency_key(header);
        CHECK_FALSE(parsed);
        CHECK(parsed.value == "");
        CHECK_MESSAGE(parsed.refusal.find(reason) != std::string_view::npos, parsed.refusal);
    }
}

TEST_CASE("a key is no step of a path, which every client leaves out of a Location")
{
    for (auto const* key : {".", "..", R"(".")", R"("..")"}) CHECK_FALSE(parse_idempotency_key(key));
    CHECK(parse_idempotency_key("...").value == "...");
}

TEST_CASE("a key may have 180 bytes after unquoting, not 181")
{
    std::string const longest(180, 'k');
    CHECK(parse_idempotency_key(longest).value == longest);
    CHECK(parse_idempotency_key('"' + longest + '"').value == longest);
    CHECK_FALSE(parse_idempotency_key(longest + 'k'));
    CHECK_FALSE(parse_idempotency_key('"' + longest + "k\""));

    std::string escaped;
    for (int i = 0; i < 180; ++i) escaped += R"(\")";
    CHECK(parse_idempotency_key('"' + escaped + '"').value.size() == 180);
}
