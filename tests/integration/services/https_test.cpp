// The order service behind its own certificate: curl as a customer, which verifies it.
#include "support/shop.hpp"
#include "support/tls_client.hpp"

#include <sys/stat.h>

using namespace skald::test;

namespace {

struct https_shop : shop
{
    certificate_folder files;

    https_shop()
    {
        orders.set_variable("SKALD_HTTP_TLS_CERTIFICATE", files.chain());
        orders.set_variable("SKALD_HTTP_TLS_KEY", files.key());
    }

    tls_client connect_safely(tls_wishes const& wishes = {}) const
    {
        return tls_client{orders.http_port(), files.root(), wishes};
    }
    /// The body, with the status behind it.
    std::string curl(std::string const& target, std::string const& options = {}) const
    {
        return run_command("curl -sS --max-time 40 -w ' %{http_code}' --cacert '" + files.root() + "' " + options +
                           " 'https://127.0.0.1:" + std::to_string(orders.http_port()) + target + '\'');
    }
};

}  // namespace

TEST_CASE("an order is placed over HTTPS, repeated and followed to its end, while the certificate is renewed")
{
    https_shop s;
    s.open();
    CHECK(s.orders.has_logged(" http.certificate_loaded file=" + s.files.chain() + " until="));
    CHECK(s.curl("/readyz") == "ready\nbroker: connected\n 200");

    auto const order =
        "-H 'Idempotency-Key: k' -H 'Content-Type: application/json' -d '" + order_request{}.body() + '\'';
    auto const first = s.curl("/orders", order);
    CHECK(first.ends_with(" 202"));
    s.files.renew("renewed");
    CHECK(s.curl("/orders", order) == first);
    CHECK(s.connect_safely().server_name() == "renewed");

    auto const end = s.curl("/sagas/k?wait=30");
    CHECK(end.ends_with(" 200"));
    CHECK(json::parse(end.substr(0, end.size() - 4))["status"] == "completed");
    CHECK(s.connect().ask("GET /readyz HTTP/1.1\r\nHost: shop\r\n\r\n").status == 0);  // plain HTTP
    s.close_in_order();
}

TEST_CASE("a pipe in place of the certificate holds nothing up: the one before it goes on, and so does SIGTERM")
{
    https_shop s;
    s.open();
    std::filesystem::remove(s.files.chain());
    REQUIRE(::mkfifo(s.files.chain().c_str(), 0600) == 0);
    CHECK(s.curl("/readyz") == "ready\nbroker: connected\n 200");
    CHECK(s.orders.has_logged("can't be read: it is a pipe or a device"));
    s.close_in_order();
}

TEST_CASE("TLS 1.1 is refused although the machine's OpenSSL allows it")
{
    https_shop s;
    auto const weak =
        s.files.write("openssl.cnf", "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = weak\n"
                                     "[weak]\nMinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n");
    s.orders.set_variable("OPENSSL_CONF", weak);
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(s.connect_safely({.version_max = TLS1_2_VERSION}).version() == "TLSv1.2");
    CHECK_THROWS_WITH(s.connect_safely({.version_min = TLS1_VERSION, .version_max = TLS1_1_VERSION}),
                      "no handshake: tlsv1 alert protocol version");
    CHECK(s.orders.terminate().code == 0);
}
