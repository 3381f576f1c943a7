// Large bodies behind S3's API, on a real server.
#include "conformance/body_store_conformance.hpp"
#include "s3/s3_bodies.hpp"
#include "s3_server.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>
#include <skald/s3.hpp>

using namespace skald;
using namespace skald::test;
namespace fs = std::filesystem;

namespace {

/// A bucket of its own, and two services on it.
class bucket
{
public:
    ports::body_store& orders() { return orders_; }
    ports::body_store& payments() { return payments_; }

    // The marks too: they are objects.
    void age(core::body_reference const& what, std::chrono::seconds by) const
    {
        for (auto const& file : server.files(core::to_hex(what.fingerprint)))
            fs::last_write_time(file, fs::last_write_time(file) - by);
    }
    void rewrite(core::body_reference const& what, std::string const& bytes) const
    {
        for (auto const& file : bodies(what)) std::ofstream{file} << bytes;
    }
    std::size_t copies(core::body_reference const& what) const { return bodies(what).size(); }
    std::size_t marks(core::body_reference const& what) const
    {
        return server.files(core::to_hex(what.fingerprint) + "/held.").size();
    }

    s3_server server;

private:
    std::vector<fs::path> bodies(core::body_reference const& what) const
    {
        return server.files(core::to_hex(what.fingerprint) + "/body.");
    }

    s3_detail::s3_bodies orders_{server.options(), "orders-1"};
    s3_detail::s3_bodies payments_{server.options(), "payments-1"};
};

config settings_for(s3_server const& server)
{
    config c;
    c.body_store = server.store();
    c.s3_key = c.s3_secret = s3_server::key;
    return c;
}

std::string refusal_of(config const& settings)
{
    try {
        s3()(settings, "orders-1");
        return {};
    }
    catch (configuration_error const& error) {
        return error.what();
    }
}

}  // namespace

TYPE_TO_STRING(bucket);

namespace skald::test::body_claims {
SKALD_BODY_STORE_CLAIMS(bucket);
}

TEST_CASE("a body of 64 MiB goes there and back, and each of many objects of a bucket is found by a purge")
{
    bucket at;
    std::string const most(core::kept_body_bytes_max, 'm');
    auto const what = core::reference_to(most, at.orders().name());
    at.orders().keep(what, most);
    CHECK(at.payments().read(what) == most);

    // With its mark each is two objects, and a page has a thousand.
    constexpr std::size_t many = 600;
    for (std::size_t n = 0; n < many; ++n) {
        auto const body = "small " + std::to_string(n);
        auto const one = core::reference_to(body, "");
        at.orders().keep(one, body);
        at.age(one, body_claims::month * 2);
    }
    CHECK(body_claims::purge(at.orders(), 10 * many, body_claims::unused) == many);
    CHECK(at.server.files("").size() == 2);
}

TEST_CASE("what is used often is renewed once an hour, and leaves nothing behind")
{
    bucket at;
    auto const what = core::reference_to("small", "");
    at.orders().keep(what, "small");
    auto const names = [&] { return at.server.files(core::to_hex(what.fingerprint)); };
    auto const first = names();
    for (int n = 0; n < 5; ++n) CHECK(at.orders().hold(what));
    CHECK(names() == first);
    at.age(what, std::chrono::hours{2});
    CHECK(at.orders().hold(what));
    CHECK(names() != first);
    CHECK(at.copies(what) == 1);
    CHECK(at.marks(what) == 1);
}

TEST_CASE("a server that is away parks nothing: it is a fault, and over when the server is back")
{
    bucket at;
    auto const what = core::reference_to("small", "");
    at.orders().keep(what, "small");
    at.server.kill();
    auto const complaint = [&](auto act) {
        try {
            act();
            return std::string{"none"};
        }
        catch (ports::fault const& met) {
            CHECK(met.kind == ports::fault_kind::unavailable);
            return std::string{met.what()};
        }
    };
    CHECK(complaint([&] { at.orders().read(what); }).find("can't be used") != std::string::npos);
    CHECK(complaint([&] { at.orders().keep(what, "small"); }) != "none");
    CHECK(complaint([&] { at.orders().hold(what); }) != "none");
    CHECK(complaint([&] { body_claims::purge(at.orders(), 1, body_claims::unused); }) != "none");
    CHECK(refusal_of(settings_for(at.server)).empty());  // no reason not to start
    at.server.start();
    CHECK(at.orders().read(what) == "small");
}

TEST_CASE("credentials, buckets and addresses that are refused are errors when the service starts")
{
    s3_server const server;
    auto const good = settings_for(server);
    CHECK(refusal_of(good).empty());
    auto wrong = good;
    wrong.s3_secret.clear();
    CHECK(refusal_of(wrong).find("AWS_SECRET_ACCESS_KEY") != std::string::npos);
    wrong = good;
    wrong.s3_key = "nobody";
    CHECK(refusal_of(wrong).find("403 InvalidAccessKeyId") != std::string::npos);
    wrong = good;
    wrong.body_store.replace(wrong.body_store.find("/skald/"), 7, "/elsewhere/");
    CHECK(refusal_of(wrong).find("404 NoSuchBucket") != std::string::npos);
    wrong.body_store = "s3:http://127.0.0.1";
    CHECK(refusal_of(wrong).find("it names no bucket") != std::string::npos);
}
