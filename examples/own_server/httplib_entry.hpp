// skald::entry behind cpp-httplib. For another server the same four lines are written with its types.
#pragma once

#include <skald/entry.hpp>

#include <httplib.h>

#include <chrono>
#include <string_view>

namespace own_server {

/// Has `entry` answer whatever `server` receives. Both must outlive the server's threads.
inline void mount(httplib::Server& server, skald::entry& entry)
{
    auto const answer = [&entry](httplib::Request const& in, httplib::Response& out) {
        // The server has taken such a body apart: what is left would be another request.
        if (in.is_multipart_form_data()) {
            out.status = 415;
            return;
        }
        auto const made = entry.respond_and_wait({.method = in.method,
                                                  .target = in.target,
                                                  .headers = {in.headers.begin(), in.headers.end()},
                                                  .body = in.body});
        out.status = made.status;
        // Fields of one name have an order, which cpp-httplib does not keep: they are sent as one (RFC 9110, 5.3).
        // Cookies can't be, and have none.
        for (auto const& [name, value] : made.headers) {
            auto const same = name == "Set-Cookie" ? out.headers.end() : out.headers.find(name);
            if (same == out.headers.end()) out.headers.emplace(name, value);
            else same->second += ", " + value;
        }
        if (!made.content_type.empty()) out.set_content(made.body, made.content_type);
    };
    server.Get(".*", answer).Post(".*", answer).Put(".*", answer).Patch(".*", answer).Delete(".*", answer);
}

}  // namespace own_server
