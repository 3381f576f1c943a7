// Large bodies in a directory that services share.
#include "bodies/directory_bodies.hpp"
#include "core/text.hpp"
#include "ports/fault.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace skald;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr auto month = std::chrono::hours{24 * 30};

/// A directory of its own, and two services on it.
struct shared_directory
{
    std::string const path = [] {
        std::string made{fs::temp_directory_path() / "skald-bodies-XXXXXX"};
        REQUIRE(::mkdtemp(made.data()) != nullptr);
        return made;
    }();
    bodies::directory_bodies orders{path, "orders-1"};
    bodies::directory_bodies payments{path, "payments-1"};

    ~shared_directory() { fs::remove_all(path); }

    std::string file_of(core::body_reference const& what) const
    {
        auto const hex = core::to_hex(what.fingerprint);
        return path + '/' + hex.substr(0, 2) + '/' + hex;
    }

    // As if that long had passed.
    void age(core::body_reference const& what, std::chrono::seconds by) const
    {
        struct stat met
        {};
        REQUIRE(::stat(file_of(what).c_str(), &met) == 0);
        timespec const times[2]{{0, UTIME_OMIT}, {met.st_mtim.tv_sec - by.count(), 0}};
        REQUIRE(::utimensat(AT_FDCWD, file_of(what).c_str(), times, 0) == 0);
    }
};

std::string const large(3'000'000, 'x');

bool used(core::body_reference const&)
{
    return true;
}
bool unused(core::body_reference const&)
{
    return false;
}

ports::body_fault::kind fault_of(ports::body_store& from, core::body_reference const& what)
{
    try {
        from.read(what);
    }
    catch (ports::body_fault const& met) {
        CHECK(std::string{met.what()}.find(what.name()) != std::string::npos);
        CHECK(std::string{met.what()}.find(from.name()) != std::string::npos);
        return met.what_kind;
    }
    FAIL("it was read");
    return {};
}

}  // namespace

TEST_CASE("what one service keeps, another reads, and it is there once")
{
    shared_directory at;
    auto const what = core::reference_to(large, at.orders.name());
    at.orders.keep(what, large);
    at.payments.keep(what, large);
    CHECK(at.payments.read(what) == large);
    CHECK(fs::file_size(at.file_of(what)) == large.size());
    auto const empty = core::reference_to("", "");
    at.orders.keep(empty, "");
    CHECK(at.orders.read(empty).empty());
}

TEST_CASE("a body that is missing or damaged is told apart from a directory that is not there")
{
    using kind = ports::body_fault::kind;
    shared_directory at;
    auto const what = core::reference_to(large, at.orders.name());
    CHECK(fault_of(at.orders, what) == kind::missing);
    CHECK(!at.orders.hold(what));
    at.orders.keep(what, large);
    fs::resize_file(at.file_of(what), large.size() - 1);
    CHECK(fault_of(at.orders, what) == kind::damaged);
    at.orders.keep(what, large);  // what is too short is written again
    CHECK(at.orders.read(what) == large);
    std::fstream{at.file_of(what), std::ios::in | std::ios::out} << 'y';
    CHECK(fault_of(at.orders, what) == kind::damaged);

    bodies::directory_bodies away{at.path + "/away", "orders-1"};
    CHECK_THROWS_AS(away.read(what), ports::fault);
    CHECK_THROWS_AS(away.keep(what, large), ports::fault);
    CHECK_THROWS_AS(away.purge(month, 10, unused), ports::fault);
}

TEST_CASE("a purge takes what nobody refers to, and only when it is old")
{
    shared_directory at;
    auto const what = core::reference_to(large, at.orders.name());
    at.orders.keep(what, large);
    at.payments.hold(what);
    CHECK(at.orders.purge(month, 10, unused) == 0);
    at.age(what, month * 2);
    SUBCASE("a service that still refers to it keeps it, and as if it were new")
    {
        CHECK(at.orders.purge(month, 10, used) == 0);
        CHECK(at.payments.purge(month, 10, unused) == 0);
        CHECK(at.payments.read(what) == large);
    }
    SUBCASE("one that has not looked yet holds it, however old it is")
    {
        CHECK(at.orders.purge(month, 10, unused) == 0);
        CHECK(at.orders.read(what) == large);
        CHECK(at.payments.purge(month, 10, unused) == 1);
        CHECK(fault_of(at.orders, what) == ports::body_fault::kind::missing);
    }
}

TEST_CASE("what is kept while a purge runs is there afterwards")
{
    shared_directory at;
    auto const what = core::reference_to("small", at.orders.name());
    for (int round = 0; round < 100; ++round) {
        at.orders.keep(what, "small");
        at.age(what, month * 2);
        std::thread purge{[&] { at.orders.purge(month, 10, unused); }};
        at.orders.keep(what, "small");
        purge.join();
        REQUIRE(at.orders.read(what) == "small");
    }
}
