#include "postgres/last_words.hpp"

#include <pqxx/version>

namespace skald::postgres {
namespace {

#if PQXX_VERSION_MAJOR < 7

// libpqxx 6 has a function for it, and keeps it private. An explicit instantiation may name private members.
template <auto member>
struct opened
{
    friend char const* error_of(pqxx::connection_base const& c) { return (c.*member)(); }
};

char const* error_of(pqxx::connection_base const& c);

template struct opened<&pqxx::connection_base::err_msg>;

#else

char const* error_of(pqxx::connection const&)
{
    return "";
}

#endif

}  // namespace

std::string last_words(pqxx::connection const& c, std::string const& error)
{
    if (!error.starts_with("Could not obtain client encoding")) return error;
    std::string const words{error_of(c)};
    return words.empty() ? error : words.substr(0, words.find('\n'));  // the other lines are libpq's guesses
}

}  // namespace skald::postgres
