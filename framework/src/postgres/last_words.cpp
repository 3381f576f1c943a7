#include "postgres/last_words.hpp"

#include <pqxx/version>

namespace skald::postgres {
namespace {

#if PQXX_VERSION_MAJOR < 7
using session = pqxx::connection_base;
#else
using session = pqxx::connection;
#endif

// libpqxx has a function for it, and keeps it private. An explicit instantiation may name private members.
template <auto member>
struct opened
{
    friend char const* error_of(session const& c) { return (c.*member)(); }
};

char const* error_of(session const& c);

template struct opened<&session::err_msg>;

}  // namespace

std::string last_words(pqxx::connection const& c, std::string const& error)
{
    // Of libpqxx 6, and of 7.
    if (!error.starts_with("Could not obtain client encoding") && !error.starts_with("Lost connection to the database"))
        return error;
    std::string const words{error_of(c)};
    return words.empty() ? error : words.substr(0, words.find('\n'));  // the other lines are libpq's guesses
}

}  // namespace skald::postgres
