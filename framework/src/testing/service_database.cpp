#include "testing/service_database.hpp"

#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"

#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <algorithm>

namespace skald::testing::inner {
namespace {

using namespace std::chrono_literals;

// A lock that is held in a test stays held: everything runs on one thread.
constexpr auto lock_timeout = 250ms;

}  // namespace

service_database::service_database(server& on, std::string service, std::vector<postgres::migration> migrations,
                                   std::string given)
    : server_{on}, service_{std::move(service)},
      migrations_{std::move(migrations)}, given_{std::move(given)}, name_{migrated()}
{
    if (!may_rewind()) {
        original_ = std::exchange(name_, {});
        recreate();
    }
    read_shape();
}

bool service_database::may_rewind()
try {
    rewinder_ = std::make_unique<pqxx::connection>(url());
    pqxx::nontransaction{*rewinder_}.exec(std::string{testing_queries::prepare_to_rewind});
    return true;
}
catch (pqxx::insufficient_privilege const&) {
    rewinder_.reset();
    return false;
}

// Creates a new database with its initial contents. Returns its name.
std::string service_database::migrated()
{
    auto const name = server_.create();
    auto const url = server_.url_of(name);
    postgres::migrate(url, service_, migrations_);
    try {
        pqxx::connection c{url};
        if (!given_.empty()) pqxx::nontransaction{c}.exec(given_);
        pqxx::nontransaction{c}.exec(std::string{testing_queries::remember});
    }
    catch (pqxx::failure const& error) {
        throw configuration_error{"given(\"" + service_ + "\", ...): " + error.what()};
    }
    return name;
}

// Creating a database is cheap; its aftermath is not: PostgreSQL syncs each of its 400 files at the next checkpoint,
// and dropping one is a checkpoint. So this is only for what rewind() can't fix.
void service_database::recreate()
{
    session_.reset();
    rewinder_.reset();
    hosted_.reset();
    auto const old = std::exchange(name_, original_.empty() ? migrated() : server_.create(original_));
    if (!old.empty()) server_.drop(old);
    if (original_.empty()) may_rewind();
}

void service_database::read_shape()
{
    shape_ = session().run(std::string{testing_queries::shape})[0][0].c_str();
    starts_with_messages_ = session().run(std::string{testing_queries::has_messages})[0][0].as<bool>();
    every_table_ = session().run(std::string{testing_queries::every_table})[0][0].c_str();
    every_sequence_ = session().run(std::string{testing_queries::every_sequence})[0][0].c_str();
    sequences_.clear();
}

postgres::connection_options service_database::options() const
{
    postgres::connection_options o;
    o.url = url();
    o.application_name = "skald/testing";
    o.lock_timeout = lock_timeout;
    o.waits_for_disk = false;
    o.server = server_.state();
    return o;
}

postgres::connection& service_database::session()
{
    if (session_ && session_->is_open()) return *session_;
    prepared_.clear();
    session_ = std::make_unique<postgres::connection>(options());
    return *session_;
}

pqxx::result service_database::run(std::string_view text, std::span<postgres::parameter const* const> parameters)
{
    auto& at = session();
    auto const [it, is_new] = prepared_.try_emplace(std::string{text}, "");
    std::string prepare;
    if (is_new) {
        it->second = "kit_" + std::to_string(++prepared_count_);
        prepare = "PREPARE " + it->second + " AS " + it->first + ';';
    }
    try {
        return at.run(prepare + postgres::execute(it->second, parameters));
    }
    catch (...) {
        prepared_.erase(it);  // whether it was prepared is unknown
        throw;
    }
}

bool service_database::rewind()
{
    if (rewinder_) {
        try {
            auto const back = postgres::filled_in(testing_queries::rewind{.shape = shape_});
            if (pqxx::nontransaction{*rewinder_}.exec(back)[0][0].as<bool>()) return false;
        }
        catch (pqxx::sql_error const& error) {
            throw std::runtime_error{
                "the database of " + service_ +
                " can't be reset to its initial state. Where a lock is in the way, another connection has left a "
                "transaction open: " +
                error.what()};
        }
    }
    recreate();
    read_shape();
    return true;
}

rows service_database::ask(std::string const& sql)
{
    rows all;
    for (auto const& row : session().run(sql)) all.push_back(text_of(row));
    return all;
}

std::vector<std::pair<std::string, std::string>> service_database::pairs(std::string_view query)
{
    std::vector<std::pair<std::string, std::string>> all;
    for (auto const& row : run(query)) all.emplace_back(row[0].c_str(), row[1].c_str());
    return all;
}

std::vector<std::pair<std::string, std::string>> service_database::every_row()
{
    return every_table_.empty() ? std::vector<std::pair<std::string, std::string>>{}
                                : pairs(every_table_ + " ORDER BY effect, line");
}

void service_database::remember_sequences()
{
    if (!every_sequence_.empty()) sequences_ = run(std::string_view{every_sequence_})[0][0].c_str();
}

void service_database::put_sequences_back()
{
    if (!sequences_.empty()) session().run(sequences_);
}

std::optional<std::chrono::milliseconds> service_database::next_due()
{
    auto const rows = run(testing_queries::next_due);
    if (rows[0][0].is_null()) return {};
    return std::max(0ms, std::chrono::milliseconds{rows[0][0].as<std::int64_t>()});
}

void service_database::advance(std::chrono::milliseconds time)
{
    run(testing_queries::advance{.milliseconds = time});
}

void service_database::record_hosted(std::vector<std::string> const& steps, std::vector<bool> const& take_signals)
{
    std::pair const now{steps, take_signals};
    if (hosted_ == now) return;
    session().run(postgres::filled_in(testing_queries::record_hosted{.steps = steps, .take_signals = take_signals}));
    hosted_ = now;
}

void service_database::end_leases()
{
    session().run(std::string{testing_queries::end_leases});
}

}  // namespace skald::testing::inner
