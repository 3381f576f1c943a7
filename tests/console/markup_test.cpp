// What strangers wrote never becomes markup.
#include "console/markup.hpp"

#include <doctest/doctest.h>

using namespace skald::console;

TEST_CASE("text is escaped wherever it stands")
{
    std::string const evil = "<script>alert(\"1\" & '2')</script>";
    CHECK(markup{evil}.code() == "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;");
    CHECK(element("p", evil).code() == "<p>" + markup{evil}.code() + "</p>");
    CHECK(element("a", {{"href", "\" onclick=\"x"}}, "go").code() == "<a href=\"&quot; onclick=&quot;x\">go</a>");
    CHECK(lone("input", {{"value", evil}}).code() == "<input value=\"" + markup{evil}.code() + "\">");
    CHECK(styled("b", "state", evil + evil).code() == "<b class=\"state\">" + markup{evil + evil}.code() + "</b>");
}

TEST_CASE("markup that was built is not escaped again")
{
    CHECK(element("p", element("b", "<") + " & " + 7).code() == "<p><b>&lt;</b> &amp; 7</p>");
}

TEST_CASE("bytes that are no text are shown as text")
{
    CHECK(markup{std::string{"a\xff\x01"} + '\0'}.code() == "a\\xff\\x01\\x00");
    CHECK(element("p", {{"title", "\xc3"}}, "").code() == "<p title=\"\\xc3\"></p>");
}

TEST_CASE("a flag stands without a value, and only where it applies")
{
    CHECK(lone("input", {attribute::flag("required"), attribute::flag("checked", false)}).code() == "<input required>");
}

TEST_CASE("a link carries every byte of a key, and no empty field")
{
    CHECK(skald::console::link("/saga", {{"home", "orders"}, {"scope", ""}, {"key", "a b&c=d#?%/+\"<>"}}) ==
          "/saga?home=orders&key=a%20b%26c%3Dd%23%3F%25%2F%2B%22%3C%3E");
    CHECK(skald::console::link("/", {}) == "/");
}

TEST_CASE("what a sentence has between backticks is code, escaped like all else")
{
    CHECK(sentence("then `skald saga retry <1>`, or `x").code() ==
          "then <code>skald saga retry &lt;1&gt;</code>, or `x");
}
