// What a message carries in the place of a large body.
#include "core/body_reference.hpp"
#include "core/signature.hpp"

#include <doctest/doctest.h>

using namespace skald;

TEST_CASE("a reference says what its body is, and reads as it was written")
{
    auto const made = core::reference_to("abc", "directory:/a;b");
    // FIPS 180-2, B.1
    CHECK(made.name() == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(made.text() == made.name() + ";size=3;store=directory:/a;b");
    CHECK(core::parse_reference(made.text()) == made);
    CHECK(core::parse_reference(made.name() + ";size=3")->store.empty());
}

TEST_CASE("a reference of another form is none")
{
    auto const name = core::reference_to("abc", "").name();
    for (auto const& text :
         {std::string{}, name, name + ";size=", name + ";size=3x", name + ";size=-1", name + ";size=67108865",
          "md5:" + name.substr(7) + ";size=3", name.substr(0, 70) + ";size=3", std::string{"sha256:"} + "Z;size=3"})
        CHECK_MESSAGE(!core::parse_reference(text), text);
}

TEST_CASE("a message has a body or one reference, and not both")
{
    core::message m;
    m.body = "abc";
    CHECK(!core::is_kept_elsewhere(m));
    auto const to = core::reference_to(m.body, "x");
    core::refer(m, to);
    CHECK(m.body.empty());
    CHECK(core::reference_in(m) == to);

    core::message other;
    core::carry_body(other, m);
    CHECK(core::reference_in(other) == to);
    other.headers.push_back(other.headers.front());
    CHECK(!core::reference_in(other));
    m.body = "and a body";
    CHECK(core::is_kept_elsewhere(m));
    CHECK(!core::reference_in(m));
}

TEST_CASE("a signature covers the reference")
{
    core::message m;
    core::refer(m, core::reference_to("abc", "x"));
    auto other = m;
    core::refer(other, core::reference_to("abd", "x"));
    CHECK(core::signed_text(m) != core::signed_text(other));
}
