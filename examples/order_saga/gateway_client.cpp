#include "gateway_client.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace order_saga {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

struct answer
{
    unsigned status{};
    std::string body;
};

/// One request on a connection of its own. Its functions are called in this order, each when the one before succeeded.
class exchange
{
public:
    exchange(asio::io_context& io, http::request<http::string_body> asked) : stream_{io}, asked_{std::move(asked)} {}

    void start(asio::ip::tcp::resolver::results_type const& addresses, std::chrono::milliseconds connect_within)
    {
        stream_.expires_after(connect_within);
        stream_.async_connect(addresses, [this](beast::error_code error, auto const&) {
            if (fails("connecting to the gateway", error)) return;
            is_connected = true;
            stream_.expires_never();
            write();
        });
    }

    bool is_connected{};  // from here on the gateway may have got the request
    std::string what_failed{"no answer from the gateway in time"};
    std::optional<answer> answered;

private:
    void write()
    {
        http::async_write(stream_, asked_, [this](beast::error_code error, std::size_t) {
            if (!fails("sending to the gateway", error)) read();
        });
    }

    void read()
    {
        http::async_read(stream_, buffer_, got_, [this](beast::error_code error, std::size_t) {
            if (!fails("reading the gateway's answer", error)) answered = answer{got_.result_int(), got_.body()};
        });
    }

    bool fails(std::string const& doing, beast::error_code const& error)
    {
        if (error) what_failed = doing + ": " + error.message();
        return error.failed();
    }

    beast::tcp_stream stream_;
    http::request<http::string_body> asked_;
    beast::flat_buffer buffer_;
    http::response<http::string_body> got_;
};

std::string in_words(answer const& got)
{
    return "the gateway answered " + std::to_string(got.status) + ": " + got.body;
}

http::request<http::string_body> request(gateway_address const& at, http::verb method, std::string const& target)
{
    http::request<http::string_body> made{method, target, 11};
    made.set(http::field::host, at.host + ':' + at.port);
    made.keep_alive(false);
    return made;
}

http::request<http::string_body> post(gateway_address const& at, std::string const& target, std::string const& key,
                                      std::string body)
{
    auto made = request(at, http::verb::post, target);
    made.set("Idempotency-Key", key);
    made.set(http::field::content_type, "application/json");
    made.body() = std::move(body);
    made.prepare_payload();
    return made;
}

/// Throws surely_not_done if it was not even connected, perhaps_done if there is no answer.
answer ask(gateway_address const& at, http::request<http::string_body> asked, gateway_client::limits const& limits)
{
    asio::io_context io;
    beast::error_code error;
    auto const addresses = asio::ip::tcp::resolver{io}.resolve(at.host, at.port, error);
    if (error) throw surely_not_done{"looking up the gateway, " + at.host + ": " + error.message()};
    exchange one{io, std::move(asked)};
    one.start(addresses, std::min(limits.connect, limits.whole_call));
    io.run_for(limits.whole_call);
    if (one.answered) return *std::move(one.answered);
    if (!one.is_connected) throw surely_not_done{one.what_failed};
    throw perhaps_done{one.what_failed};
}

receipt read_receipt(nlohmann::json const& said)
{
    return {said.at("id").get<std::string>(), said.at("amount").get<std::int64_t>(), said.at("status") == "declined"};
}

/// The receipt in the answer to a POST.
receipt receipt_in(answer const& got)
try {
    if (got.status == 201) return read_receipt(nlohmann::json::parse(got.body));
    // 408 and 409: it has, or had, a request that may still act. Any other 4xx refuses the request.
    if (got.status >= 400 && got.status < 500 && got.status != 408 && got.status != 409)
        throw surely_not_done{in_words(got)};
    throw perhaps_done{in_words(got)};
}
catch (nlohmann::json::exception const& error) {
    throw perhaps_done{in_words(got) + " (" + error.what() + ')'};
}

std::string percent_encoded(std::string_view text)
{
    constexpr std::string_view digits{"0123456789ABCDEF"};
    constexpr std::string_view plain{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"};
    std::string made;
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (plain.find(c) != std::string_view::npos) made += c;
        else made.append({'%', digits[byte >> 4U], digits[byte & 15U]});
    }
    return made;
}

}  // namespace

gateway_address parse_gateway_address(std::string_view text)
{
    auto const colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size())
        throw std::invalid_argument{"the gateway's address is HOST:PORT, and not `" + std::string{text} + '`'};
    return {std::string{text.substr(0, colon)}, std::string{text.substr(colon + 1)}};
}

receipt gateway_client::charge(std::string const& key, std::string const& reference, std::int64_t cents) const
{
    nlohmann::json const body{{"amount", cents}, {"currency", "EUR"}, {"reference", reference}};
    return receipt_in(ask(at_, post(at_, "/charges", key, body.dump()), limits_));
}

receipt gateway_client::refund(std::string const& key, std::string const& charge) const
{
    return receipt_in(ask(at_, post(at_, "/charges/" + percent_encoded(charge) + "/refund", key, "{}"), limits_));
}

std::vector<known_charge> gateway_client::charges_of(std::string const& reference) const
try {
    auto const got =
        ask(at_, request(at_, http::verb::get, "/charges?reference=" + percent_encoded(reference)), limits_);
    if (got.status != 200) throw perhaps_done{in_words(got)};
    auto const said = nlohmann::json::parse(got.body);
    if (said.at("pending") != 0) throw perhaps_done{"the gateway has a request for it in progress"};
    std::vector<known_charge> found;
    for (auto const& one : said.at("charges"))
        found.push_back({read_receipt(one), one.at("refunded").get<std::int64_t>()});
    return found;
}
catch (surely_not_done const& error) {
    throw perhaps_done{error.what()};
}
catch (nlohmann::json::exception const& error) {
    throw perhaps_done{std::string{"the gateway's answer: "} + error.what()};
}

}  // namespace order_saga
