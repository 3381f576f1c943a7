#include "server.hpp"

#include "application.hpp"
#include "core/log.hpp"
#include "form.hpp"
#include "http/chars.hpp"
#include "http/server.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <csignal>
#include <pthread.h>
#include <system_error>

namespace skald::console {
namespace {

constexpr std::chrono::seconds last_answers{10};  // for requests that are under way when it is told to stop

http::server_options options_of(settings const& given)
{
    http::server_options options;
    options.listen = given.listen;
    options.listen_name = "--listen";
    options.lanes = static_cast<std::size_t>(given.threads);
    options.limits.peer_connections_max = 256;  // a proxy is one address, and needs many
    options.wait_max = {};
    return options;
}

request read(http::received const& from)
{
    auto const& message = from.message;
    request asked;
    asked.method = message.method == "HEAD" ? "GET" : message.method;
    asked.path = message.path;
    asked.peer = from.peer;
    auto query = parse_form(message.query);
    // What a form says must not come from a link.
    auto form = parse_form(asked.method == "POST" && message.query.empty() ? message.body : std::string{});
    asked.is_readable = query && form;
    if (query) asked.query = *std::move(query);
    if (form) asked.form = *std::move(form);
    // What is there twice says nothing: one of them is not from the proxy that is trusted.
    asked.header = [&message](std::string const& name) {
        auto const count = std::ranges::count_if(
            message.headers, [&](auto const& one) { return http::equal_ignoring_case(one.first, name); });
        return count == 1 ? std::string{message.header(name)} : std::string{};
    };
    return asked;
}

http::response write(response made)
{
    bool const has_body = made.status != 304;
    return {made.status, has_body ? made.content_type : std::string{}, std::move(made.headers),
            has_body ? std::move(made.body) : std::string{}};
}

// Waits for a signal that all threads block, so that the server is stopped by a thread and not by a handler.
class stopping
{
public:
    stopping()
    {
        sigemptyset(&signals_);
        for (int const one : {SIGINT, SIGTERM}) sigaddset(&signals_, one);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    }
    void wait() const
    {
        int got{};
        sigwait(&signals_, &got);
    }

private:
    sigset_t signals_{};
};

settings const& checked(settings const& given)
{
    check(given);
    return given;
}

}  // namespace

class server::implementation
{
public:
    explicit implementation(settings const& given)
        : to_{std::make_shared<core::stderr_logger>("console")}, console_{checked(given), to_},
          log_{to_, core::severity::warning}, http_{options_of(given),
                                                    [this](http::received const& asked, std::size_t) {
                                                        return write(console_.answer(read(asked)));
                                                    },
                                                    log_}
    {
        http_.start();
    }
    ~implementation() { http_.drain(last_answers); }
    implementation(implementation const&) = delete;
    implementation& operator=(implementation const&) = delete;

    std::string address() const { return http_.address(); }

private:
    std::shared_ptr<core::stderr_logger> to_;
    application const console_;
    core::filtering_logger log_;  // of the server's own
    http::server http_;           // last: its threads use the rest
};

server::server(settings const& given)
try : implementation_{std::make_unique<implementation>(given)} {
}
catch (configuration_error const&) {
    throw;
}
catch (http::address_unavailable const&) {  // no mistake in the settings: it may be there later
    throw;
}
catch (std::system_error const&) {  // no thread for now
    throw;
}
catch (std::runtime_error const& error) {
    throw configuration_error{error.what()};
}

server::~server() = default;

std::string server::address() const
{
    return implementation_->address();
}

void serve(settings const& given, std::function<void(std::string const& address)> const& started)
{
    stopping const until;  // before there are threads
    server const running{given};
    started("http://" + running.address() + "/");
    until.wait();
}

}  // namespace skald::console
