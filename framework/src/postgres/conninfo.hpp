// Connection strings with Skald's own settings placed first, so that the user's win.
#pragma once

#include <string>
#include <string_view>

namespace skald::postgres {

/// `url` is a URL, a keyword string, or empty (then libpq's own variables, PGHOST and so on, count).
/// Throws configuration_error if libpq can't read it; the message does not repeat it, since it may hold a password.
/// `session_attrs`: which servers are acceptable, as in libpq's target_session_attrs.
std::string with_defaults(std::string_view url, std::string_view application_name,
                          std::string_view session_attrs = "read-write");

/// For the start of a process: also checks what libpq itself finds out only when it connects, and what then looks like
/// a server that is unavailable: values that it does not know (`sslmode=on`), a service that is in no file, missing
/// certificates. Contacts no server. Throws configuration_error that
/// begins with `setting`: where the URL is from.
void check_settings(std::string_view url, std::string const& setting = "DATABASE_URL");

/// For the start of a service, which writes: throws configuration_error if only a server that takes no writes would do.
void refuse_read_only(std::string_view url);

/// Why connecting failed, in libpq's words; and that no URL was given, if that is so: it is the most likely cause.
std::string why_not_connected(std::string_view url, std::string const& error);

/// What to do about it: by libpq's words, where they are English.
std::string_view remedy_of_no_connection(std::string_view error);

}  // namespace skald::postgres
