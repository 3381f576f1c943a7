#include "server.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>

namespace gateway {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using http_request = http::request<http::string_body>;

/// The fault `down` or `error_before`: no answer of the provider's.
struct refused_by_fault
{
    response answer;
};

tcp::endpoint endpoint_of(asio::io_context& io, std::string const& listen)
{
    auto const colon = listen.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error{"--listen " + listen + " is no HOST:PORT"};
    boost::system::error_code error;
    auto host = listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    auto const found = tcp::resolver{io}.resolve(host, listen.substr(colon + 1), tcp::resolver::passive, error);
    if (error) throw std::runtime_error{"--listen " + listen + ": " + error.message()};
    return *found.begin();
}

// As `kill -9` from outside.
[[noreturn]] void die()
{
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
}

void wait_until_gone(tcp::socket& client, std::chrono::milliseconds longest)
{
    pollfd gone{client.native_handle(), POLLRDHUP, 0};
    ::poll(&gone, 1, static_cast<int>(longest.count()));
}

std::string header(http_request const& from, char const* name)
{
    auto const found = from.find(name);
    return found == from.end() ? std::string{} : std::string{found->value()};
}

request read(http_request const& from)
{
    std::string_view const target{from.target().data(), from.target().size()};
    auto const question = std::min(target.find('?'), target.size());
    return {.method = std::string{from.method_string()},
            .path = std::string{target.substr(0, question)},
            .query = std::string{target.substr(std::min(question + 1, target.size()))},
            .key = header(from, "Idempotency-Key"),
            .body = from.body()};
}

circumstances circumstances_of(fault const& met)
{
    circumstances how{.before = {}, .declines = met.kind == fault_kind::declined};
    how.before = [met] {
        if (met.kind == fault_kind::die_before) die();
        if (met.kind == fault_kind::error_before) throw refused_by_fault{problem(500, "something went wrong")};
        if (met.kind == fault_kind::slow) std::this_thread::sleep_for(met.time);
    };
    return how;
}

/// What the client gets of `acted`; nothing: the connection ends.
std::optional<response> after_acting(fault const& met, response acted, tcp::socket& client)
{
    if (met.kind == fault_kind::die_after) die();
    if (met.kind == fault_kind::hang_up_after) return std::nullopt;
    if (met.kind == fault_kind::answer_late) wait_until_gone(client, met.time);
    if (met.kind == fault_kind::error_after) return problem(500, "something went wrong");
    return acted;
}

std::optional<response> answer(request const& asked, std::string const& own_fault, provider& provider,
                               fault_plan& faults, tcp::socket& client)
try {
    if (asked.path == "/faults") {
        if (asked.method != "PUT") return problem(405, "PUT /faults");
        faults.set(asked.body, fault_plan::clock::now());
        return response{204};
    }
    auto const met =
        own_fault.empty() ? faults.take(asked.method != "POST", fault_plan::clock::now()) : read_fault(own_fault);
    if (met.kind == fault_kind::down) return problem(503, "down");
    return after_acting(met, provider.answer(asked, circumstances_of(met)), client);
}
catch (unknown_fault const& error) {
    return problem(400, error.what());
}
catch (refused_by_fault const& refused) {
    return refused.answer;
}

http::response<http::string_body> message(response said, http_request const& to)
{
    http::response<http::string_body> made{http::int_to_status(static_cast<unsigned>(said.status)), to.version()};
    made.keep_alive(to.keep_alive());
    if (said.is_replay) made.set("Idempotency-Replayed", "true");
    if (said.status != 204) {
        made.set(http::field::content_type, said.content_type);
        made.body() = std::move(said.body);
        made.prepare_payload();
    }
    return made;
}

}  // namespace

server::server(std::string const& listen, provider& provider)
try : acceptor_{io_, endpoint_of(io_, listen)}, provider_{provider} {
}
catch (boost::system::system_error const& error) {
    throw std::runtime_error{"--listen " + listen + ": " + error.code().message()};
}

std::string server::address() const
{
    auto const at = acceptor_.local_endpoint();
    auto const host = at.address().to_string();
    return fmt::format("{}:{}", at.address().is_v6() ? '[' + host + ']' : host, at.port());
}

void server::run()
{
    for (;;) {
        boost::system::error_code error;
        auto client = acceptor_.accept(error);
        if (error) continue;
        try {
            std::thread{[this, client = std::move(client)]() mutable { serve(client); }}.detach();
        }
        catch (std::system_error const& no_thread) {
            fmt::print(stderr, "gateway: a connection was closed: {}\n", no_thread.what());
        }
    }
}

void server::serve(socket& client)
try {
    client.set_option(tcp::no_delay{true});
    boost::beast::flat_buffer buffer;
    for (bool stays = true; stays;) {
        http_request asked;
        http::read(client, buffer, asked);
        auto said = answer(read(asked), header(asked, "Gateway-Fault"), provider_, faults_, client);
        if (!said) break;
        auto const sent = message(*std::move(said), asked);
        http::write(client, sent);
        stays = sent.keep_alive();
    }
    client.shutdown(tcp::socket::shutdown_both);
}
catch (boost::system::system_error const&) {
    // The client has gone, or does not speak HTTP.
}

}  // namespace gateway
