// Large bodies in a directory that services share.
#include "bodies/directory_bodies.hpp"

#include "conformance/body_store_conformance.hpp"
#include "support/temporary_directory.hpp"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>

using namespace skald;
namespace fs = std::filesystem;

namespace {

/// A directory of its own, and two services on it.
class shared_directory
{
public:
    ports::body_store& orders() { return orders_; }
    ports::body_store& payments() { return payments_; }

    void age(core::body_reference const& what, std::chrono::seconds by) const
    {
        struct stat met
        {};
        REQUIRE(::stat(file_of(what).c_str(), &met) == 0);
        timespec const times[2]{{0, UTIME_OMIT}, {met.st_mtim.tv_sec - by.count(), 0}};
        REQUIRE(::utimensat(AT_FDCWD, file_of(what).c_str(), times, 0) == 0);
    }
    void rewrite(core::body_reference const& what, std::string const& bytes) const
    {
        std::ofstream{file_of(what)} << bytes;
    }
    std::size_t copies(core::body_reference const& what) const { return fs::exists(file_of(what)) ? 1 : 0; }
    std::string path() const { return place_.path(); }
    std::string file_of(core::body_reference const& what) const
    {
        auto const hex = core::to_hex(what.fingerprint);
        return path() + '/' + hex.substr(0, 2) + '/' + hex;
    }

private:
    test::temporary_directory place_;
    bodies::directory_bodies orders_{path(), "orders-1"};
    bodies::directory_bodies payments_{path(), "payments-1"};
};

}  // namespace

TYPE_TO_STRING(shared_directory);

namespace skald::test::body_claims {
SKALD_BODY_STORE_CLAIMS(shared_directory);
}

TEST_CASE("a directory that is not there is told apart from a body that is missing")
{
    shared_directory at;
    auto const what = core::reference_to("small", at.orders().name());
    bodies::directory_bodies away{at.path() + "/away", "orders-1"};
    CHECK_THROWS_AS(away.read(what), ports::fault);
    CHECK_THROWS_AS(away.keep(what, "small"), ports::fault);
    CHECK_THROWS_AS(test::body_claims::purge(away, 10, test::body_claims::unused), ports::fault);
}

TEST_CASE("a mount point with nothing mounted on it is a store that is away")
{
    shared_directory at;
    auto const what = core::reference_to("small", at.orders().name());
    fs::create_directory(at.path() + "/lost+found");
    CHECK_THROWS_AS(at.orders().read(what), ports::fault);
    CHECK_THROWS_AS(at.orders().hold(what), ports::fault);
    at.orders().keep(core::reference_to("other", ""), "other");
    CHECK_THROWS_AS(at.orders().read(what), ports::body_fault);
}

TEST_CASE("what was half written does not stay")
{
    shared_directory at;
    auto const what = core::reference_to("small", at.orders().name());
    auto const path = at.file_of(what);
    fs::create_directories(path);  // so that it can't be renamed to that
    CHECK_THROWS_AS(at.orders().keep(what, "small"), ports::fault);
    CHECK(!fs::exists(path + "..new"));
    fs::remove(path);
    std::ofstream{path + "..new"} << "sma";  // a crash
    test::body_claims::purge(at.orders(), 10, test::body_claims::unused);
    CHECK(!fs::exists(path + "..new"));
}
