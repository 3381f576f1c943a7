// The server through TLS, with a real client of OpenSSL's: what is different from plain HTTP, and what must not be.
#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <future>
#include <string>
#include <vector>

#include <skald/errors.hpp>

#include "support/descriptors.hpp"
#include "support/live_server.hpp"
#include "support/tls_client.hpp"

using namespace skald;
using namespace skald::http;
using namespace skald::test;
using test::certificate_folder;
using test::tls_client;
using test::tls_wishes;

namespace {

server_options through_tls(certificate_folder const& files, server_options options)
{
    options.tls = tls_files{.certificate = files.chain(), .key = files.key()};
    return options;
}

struct live_tls_server : certificate_folder, live_server
{
    explicit live_tls_server(server_options options = {}) : live_server{through_tls(*this, options)}
    {
        std::signal(SIGPIPE, SIG_IGN);  // as a worker's process does
    }

    tls_client connect(tls_wishes const& wishes = {}) const { return tls_client{service.port(), root(), wishes}; }
    raw_client connect_plainly() { return live_server::connect(); }
    /// Why no connection came about.
    std::string refusal(tls_wishes const& wishes) const
    {
        try {
            connect(wishes);
        }
        catch (std::runtime_error const& error) {
            return error.what();
        }
        return "";
    }
};

/// The first bytes of a handshake, a few too few.
std::string half_a_hello()
{
    std::unique_ptr<SSL_CTX, test::openssl_deleter<SSL_CTX_free>> const context{SSL_CTX_new(TLS_client_method())};
    std::unique_ptr<SSL, test::openssl_deleter<SSL_free>> const ssl{SSL_new(context.get())};
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_connect(ssl.get());
    char* bytes = nullptr;
    auto const size = BIO_get_mem_data(SSL_get_wbio(ssl.get()), &bytes);
    return {bytes, static_cast<std::size_t>(size) / 2};
}

}  // namespace

TEST_CASE_FIXTURE(live_tls_server, "TLS 1.2 and 1.3 carry one request after the other, pipelined ones too")
{
    for (auto const& [version, name] : {std::pair{TLS1_2_VERSION, "TLSv1.2"}, {TLS1_3_VERSION, "TLSv1.3"}}) {
        auto client = connect({.version_min = version, .version_max = version});
        CHECK(client.version() == name);
        for (int i = 0; i < 3; ++i) {
            auto const answer = client.ask(post("/orders", "hello"));
            CHECK(answer.body == "POST /orders hello");
            CHECK(answer.has("Connection: keep-alive"));
        }
        std::string all;
        for (std::size_t i = 0; i < 200; ++i) all += post("/" + std::to_string(i), std::string(i * 10, 'b'));
        client.send(all);
        for (std::size_t i = 0; i < 200; ++i)
            CHECK(client.read_answer().body == "POST /" + std::to_string(i) + ' ' + std::string(i * 10, 'b'));
    }
}

TEST_CASE("large bodies go both ways, in any cut")
{
    live_tls_server on{{.limits = {.body_bytes_max = 4 * 1024 * 1024}}};
    std::string body(4 * 1024 * 1024, ' ');
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i * 7 % 26);
    for (int const version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        auto client = on.connect({.version_min = version, .version_max = version});
        auto const bytes = post("/echo", body);
        for (std::size_t at = 0, size = 1; at < bytes.size(); at += size, size = size % 40'000 + 997)
            client.send(bytes.substr(at, size));
        auto const answer = client.read_answer();
        CHECK((answer.body == "POST /echo " + body));
    }
    auto reader = on.connect();
    auto const large = reader.ask(get("/large"));
    CHECK((large.body == std::string(32 * 1024 * 1024, 'x')));
    CHECK(reader.ask(get("/next")).body == "GET /next ");
}

TEST_CASE_FIXTURE(live_tls_server,
                  "100 Continue, HEAD, 204 and an answer without keep-alive are what they are in plain HTTP")
{
    auto client = connect();
    client.send("POST /a HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    CHECK(client.read_answer(false).status == 100);
    CHECK(client.ask("hello").body == "POST /a hello");
    client.send("HEAD /abc HTTP/1.1\r\nHost: shop\r\n\r\n" + get("/nothing"));
    CHECK(client.read_answer(false).value_of("Content-Length") == "10");
    CHECK(client.read_answer().status == 204);
    CHECK(client.ask(get("/a", "Connection: close\r\n")).has("Connection: close"));
    CHECK(client.is_closed());
    CHECK(client.was_told_of_end());
}

TEST_CASE_FIXTURE(live_tls_server, "a client that says in TLS that it has sent everything still gets its answer")
{
    auto client = connect();
    client.send(get("/hold"));
    client.say_end();
    held.wait_for(1);
    held.open();
    CHECK(client.read_answer().body == "GET /hold ");
    CHECK(client.is_closed());
    CHECK(client.was_told_of_end());
}

TEST_CASE_FIXTURE(live_tls_server, "plain HTTP to a TLS port gets no byte, and costs no lane")
{
    auto plain = connect_plainly();
    plain.send(get("/plain"));
    CHECK(plain.is_closed());
    CHECK(log.wait_for("http.handshake_failed"));
    CHECK(handled == 0);
    CHECK(connect().ask(get("/next")).status == 200);
}

TEST_CASE_FIXTURE(live_tls_server, "TLS before 1.2 is refused, and the client is told so")
{
    for (int const version : {TLS1_VERSION, TLS1_1_VERSION})
        CHECK(refusal({.version_min = version, .version_max = version}) ==
              "no handshake: tlsv1 alert protocol version");
    CHECK(handled == 0);
}

TEST_CASE_FIXTURE(live_tls_server,
                  "HTTP/1.1 is chosen of what the client offers; one that offers only others is refused")
{
    CHECK(connect({.protocols = {2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'}}).protocol() == "http/1.1");
    CHECK(connect().protocol() == "");
    CHECK(refusal({.protocols = {2, 'h', '2'}}) == "no handshake: tlsv1 alert no application protocol");
}

TEST_CASE_FIXTURE(live_tls_server, "a session is resumed by its ticket, and no client may renegotiate")
{
    auto first = connect();
    CHECK(first.ask(get("/")).status == 200);  // the ticket comes before the answer
    std::unique_ptr<SSL_SESSION, test::openssl_deleter<SSL_SESSION_free>> const ticket{SSL_get1_session(first.tls())};
    auto second = connect({.resumed = ticket.get()});
    CHECK(SSL_session_reused(second.tls()) == 1);
    CHECK(second.ask(get("/")).status == 200);

    auto renegotiating = connect({.version_max = TLS1_2_VERSION});
    CHECK(SSL_renegotiate(renegotiating.tls()) == 1);
    CHECK(SSL_do_handshake(renegotiating.tls()) != 1);
}

TEST_CASE("a handshake that never ends is cut off, and has kept nobody waiting")
{
    live_tls_server on{{.limits = {.header_time = 2s}, .lanes = 1}};
    auto silent = on.connect_plainly();
    auto half = on.connect_plainly();
    half.send(half_a_hello());
    auto quick = on.connect();
    for (int i = 0; i < 10; ++i) CHECK(quick.ask(get("/quick")).body == "GET /quick ");
    CHECK(silent.is_closed());
    CHECK(half.is_closed());
    CHECK(on.handled == 10);
}

TEST_CASE("a client that disappears at any moment does no harm")
{
    live_tls_server on{{.lanes = 1}};
    for (bool const resets : {false, true}) {
        auto const leave = [&](raw_client& client) { resets ? client.reset() : client.close(); };
        auto in_handshake = on.connect_plainly();
        in_handshake.send(half_a_hello());
        leave(in_handshake);
        auto before_request = on.connect();
        leave(before_request);
        auto in_body = on.connect();
        in_body.send("POST /body HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\nhel");
        leave(in_body);
        auto in_answer = on.connect({.receive_bytes = 4096});
        in_answer.send(get("/large"));
        char first = 0;
        CHECK(SSL_peek(in_answer.tls(), &first, 1) == 1);
        leave(in_answer);
        CHECK(on.connect().ask(get("/next")).body == "GET /next ");
    }
    CHECK(on.service.drain(30s));  // none of them is still there
}

TEST_CASE("a client that sends on after 413 is let, sees it, and that nothing was cut off")
{
    live_tls_server on{{.limits = {.body_bytes_max = 1000}}};
    // A busy machine may keep this client from sending in time, so it tries again.
    bool was_let = false;
    for (int tries = 0; tries < 5 && !was_let; ++tries) {
        auto client = on.connect();
        was_let = client.send("POST /a HTTP/1.1\r\nHost: shop\r\nContent-Length: 900000\r\n\r\n");
        for (int i = 0; i < 90; ++i) was_let = client.send(std::string(10'000, 'b')) && was_let;
        CHECK(client.read_answer().status == 413);
        CHECK(client.is_closed());
        CHECK(client.was_told_of_end());
    }
    CHECK(was_let);
    CHECK(on.handled == 0);
}

TEST_CASE("a body that comes too slowly is answered 408 although its read was given up")
{
    live_tls_server on{{.limits = {.body_time = 50ms}}};
    auto client = on.connect();
    client.send("POST /a HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\nhel");
    CHECK(client.read_answer().status == 408);
    CHECK(client.is_closed());
    CHECK(client.was_told_of_end());
}

TEST_CASE("a client that doesn't read its answer is cut off, and can tell that from an end")
{
    live_tls_server on{{.limits = {.write_time = 50ms}, .lanes = 1}};
    auto client = on.connect({.receive_bytes = 4096});
    client.send(get("/large"));
    CHECK(on.log.wait_for("http.client_too_slow"));
    CHECK(client.read_to_end().size() < 32 * 1024 * 1024);
    CHECK_FALSE(client.was_told_of_end());
    CHECK(on.connect().ask(get("/next")).status == 200);
}

TEST_CASE("a connection without a request is closed in order")
{
    live_tls_server on{{.limits = {.idle_time = 20ms}}};
    auto client = on.connect();
    CHECK(client.is_closed());
    CHECK(client.was_told_of_end());
}

TEST_CASE("beyond the number of connections a client is told 503, through TLS")
{
    live_tls_server on{{.limits = {.header_time = 120s, .connections_max = 1}}};
    auto first = on.connect();
    CHECK(first.ask(get("/")).status == 200);
    first.send("GET / HTTP/1.1\r\n");  // so that it is not idle
    auto second = on.connect();
    CHECK(second.read_answer().status == 503);
    CHECK(second.is_closed());
    CHECK(second.was_told_of_end());
    CHECK(first.ask("Host: shop\r\nConnection: close\r\n\r\n").status == 200);
    CHECK(first.is_closed());
    CHECK(on.connect().ask(get("/")).status == 200);
}

TEST_CASE("a connection that never begins its handshake makes room for one that does")
{
    live_tls_server on{{.limits = {.header_time = 120s, .connections_max = 1}}};
    auto silent = on.connect_plainly();
    CHECK(on.connect().ask(get("/")).status == 200);
    CHECK(silent.is_closed());
}

TEST_CASE("drain closes who is idle or in a handshake, and lets a running request finish")
{
    live_tls_server on{{.limits = {.header_time = 120s, .idle_time = 120s}}};
    auto idle = on.connect();
    CHECK(idle.ask(get("/")).status == 200);
    auto half = on.connect_plainly();
    half.send(half_a_hello());
    auto running = on.connect();
    running.send(get("/hold"));
    on.held.wait_for(1);

    auto drained = std::async(std::launch::async, [&] { return on.service.drain(30s); });
    CHECK(idle.is_closed());
    CHECK(idle.was_told_of_end());
    CHECK(half.is_closed());
    on.held.open();
    auto const answer = running.read_answer();
    CHECK(answer.body == "GET /hold ");
    CHECK(answer.has("Connection: close"));
    CHECK(running.is_closed());
    CHECK(running.was_told_of_end());
    CHECK(drained.get());
}

TEST_CASE_FIXTURE(live_tls_server, "drain cuts off who does not finish in time")
{
    check_that_drain_cuts_off_what_is_late(*this);
}

TEST_CASE_FIXTURE(live_tls_server, "a renewed certificate is shown from the next connection on")
{
    auto before = connect();
    CHECK(before.server_name() == "first");
    renew("second");
    CHECK(connect().server_name() == "second");
    CHECK(before.ask(get("/")).status == 200);  // and who is there stays

    // Written in place, one file after the other: until the second is there, the certificate before stays.
    auto const made = test::issue("third");
    auto const key_before = std::filesystem::file_size(key());
    std::ofstream{chain()} << pem(made);
    auto const other_root = write("third.pem", pem(made));
    CHECK(connect().server_name() == "second");
    CHECK(log.wait_for("http.certificate_refused"));
    CHECK(std::filesystem::file_size(key()) == key_before);
    std::ofstream{key()} << key_pem(made);
    CHECK(tls_client{service.port(), other_root}.server_name() == "third");

    std::filesystem::remove(key());
    CHECK(tls_client{service.port(), other_root}.server_name() == "third");
    renew("fourth");
    CHECK(connect().server_name() == "fourth");
}

TEST_CASE_FIXTURE(live_tls_server, "a certificate that could not be read for want of descriptors is tried again")
{
    auto const before = connect();  // stays: the server would close its end at any time, and free a descriptor
    CHECK(before.server_name() == "first");
    renew("second");
    {
        few_descriptors const few{2};  // for the two ends of a connection, and none for a file
        auto const client = connect_plainly();
        CHECK(log.wait_for("http.certificate_refused"));
    }
    CHECK(connect().server_name() == "second");
}

TEST_CASE("a key that everybody may read is told")
{
    for (auto const& [mode, is_told] : {std::pair{0644, true}, {0640, false}}) {
        certificate_folder files;
        std::filesystem::permissions(files.key(), static_cast<std::filesystem::perms>(mode));
        live_server on{through_tls(files, {})};
        CHECK(on.log.has("http.certificate_loaded"));
        CHECK(on.log.has("http.key_exposed") == is_told);
    }
}

TEST_CASE("files that can't be used are an error before anything is listened on")
{
    certificate_folder const files;
    std::filesystem::remove(files.key());
    CHECK_THROWS_AS(live_server{through_tls(files, {})}, configuration_error);
}

TEST_CASE("many clients at once each get their own answers through TLS")
{
    live_tls_server on{{.lanes = 3}};
    check_that_each_client_gets_its_own_answers(on, 997);
}
