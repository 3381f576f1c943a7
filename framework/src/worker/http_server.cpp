#include "worker/http_server.hpp"

namespace skald::worker_detail {

http::server_options server_options_of(config const& settings)
{
    http::server_options options;
    options.listen = settings.http_listen;
    options.limits = settings.http;
    options.lanes = settings.http_lanes;
    options.wait_max = settings.http_wait_max;
    if (!(settings.http_tls_certificate + settings.http_tls_key).empty())
        options.tls = http::tls_files{.certificate = settings.http_tls_certificate, .key = settings.http_tls_key};
    return options;
}

std::unique_ptr<http::server> make_server(config const& settings, entry::implementation& entry, core::logger& log)
{
    return std::make_unique<http::server>(
        server_options_of(settings),
        [&entry](http::received& r, std::size_t) { return entry.respond(r.message, r.notes); }, log,
        [&entry](http::received& r) { return entry.respond_at_once(r.message, r.notes); }, &entry);
}

}  // namespace skald::worker_detail
