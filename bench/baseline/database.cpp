#include "database.hpp"

#include "bench_baseline_sql.hpp"

#include <charconv>
#include <cstring>

#include <arpa/inet.h>

namespace bench_baseline {
namespace {

constexpr std::uint32_t bytea_oid = 17, bigint_oid = 20, text_oid = 25;

void append(std::string& to, std::uint32_t value)
{
    value = htonl(value);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    to.append(bytes, sizeof bytes);
}

// One dimension, no NULLs, counted from 1.
std::string array_head(std::uint32_t element, std::size_t size)
{
    std::string head;
    append(head, size == 0 ? 0 : 1);
    append(head, 0);
    append(head, element);
    if (size == 0) return head;
    append(head, static_cast<std::uint32_t>(size));
    append(head, 1);
    return head;
}

parameter array_of(std::uint32_t element, std::span<std::string const> values)
{
    auto bytes = array_head(element, values.size());
    for (auto const& value : values) {
        append(bytes, static_cast<std::uint32_t>(value.size()));
        bytes += value;
    }
    return {std::move(bytes), true};
}

bool belongs_to(std::string_view statement, std::string_view service, bool shop)
{
    auto const among = [&](auto... names) { return ((statement == names) || ...); };
    if (among("create_orders", "create_order", "cancel_orders", "confirm_orders")) return service == "orders";
    if (among("charge_all", "charge", "pay_from_wallet")) return service == "payments";
    if (among("ship_all", "ship")) return service == "shipping";
    if (among("pay_wallets")) return service == "payments" && shop;
    if (among("take_stock")) return service == "shipping" && shop;
    return true;
}

}  // namespace

parameter text(std::string_view value)
{
    return {std::string{value}, false};
}

parameter number(std::int64_t value)
{
    return {std::to_string(value), false};
}

parameter text_array(std::span<std::string const> values)
{
    return array_of(text_oid, values);
}

parameter bytea_array(std::span<std::string const> values)
{
    return array_of(bytea_oid, values);
}

parameter bigint_array(std::span<std::int64_t const> values)
{
    auto bytes = array_head(bigint_oid, values.size());
    for (auto const value : values) {
        append(bytes, 8);
        append(bytes, static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32));
        append(bytes, static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)));
    }
    return {std::move(bytes), true};
}

std::string_view rows::at(int row, int column) const
{
    return {PQgetvalue(result_.get(), row, column), static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t rows::number_at(int row, int column) const
{
    auto const digits = at(row, column);
    std::int64_t value{};
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

database::database(std::string const& url, std::string_view service, bool shop) : connection_{PQconnectdb(url.c_str())}
{
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw database_error{PQerrorMessage(connection_.get()), ""};
    // Tables that are almost empty when a statement is planned are not when it runs. And nothing here is worth
    // compiling.
    run_text("SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan");
    for (auto const& [name, statement] : sql::all)
        if (belongs_to(name, service, shop))
            checked(
                PQprepare(connection_.get(), std::string{name}.c_str(), std::string{statement}.c_str(), 0, nullptr));
    for (auto const* plain : {"begin", "commit"}) checked(PQprepare(connection_.get(), plain, plain, 0, nullptr));
}

void database::fail(PGresult* result)
{
    rows const freed{result};
    char const* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    throw database_error{PQerrorMessage(connection_.get()), state != nullptr ? state : ""};
}

rows database::checked(PGresult* result)
{
    auto const status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(result);
    return rows{result};
}

void database::send_prepared(char const* prepared, parameters const& values)
{
    std::vector<char const*> pointers;
    std::vector<int> lengths, formats;
    for (auto const& value : values) {
        pointers.push_back(value.bytes.c_str());
        lengths.push_back(static_cast<int>(value.bytes.size()));
        formats.push_back(value.binary ? 1 : 0);
    }
    if (PQsendQueryPrepared(connection_.get(), prepared, static_cast<int>(values.size()), pointers.data(),
                            lengths.data(), formats.data(), 0) == 0)
        fail(nullptr);
}

rows database::run(char const* prepared, parameters const& values)
{
    send_prepared(prepared, values);
    rows const answer = checked(PQgetResult(connection_.get()));
    while (auto* const more = PQgetResult(connection_.get())) PQclear(more);
    return answer;
}

void database::run_text(char const* text)
{
    checked(PQexec(connection_.get(), text));
}

void database::add(char const* prepared, parameters const& values)
{
    if (collected_ == 0 && PQenterPipelineMode(connection_.get()) == 0) fail(nullptr);
    send_prepared(prepared, values);
    ++collected_;
}

std::vector<rows> database::flush()
{
    if (PQpipelineSync(connection_.get()) == 0) fail(nullptr);
    std::vector<rows> answers;
    for (; collected_ > 0; --collected_) {
        answers.push_back(checked(PQgetResult(connection_.get())));
        PQclear(PQgetResult(connection_.get()));  // the null between the answers of two statements
    }
    PQclear(PQgetResult(connection_.get()));  // the answer to the sync
    if (PQexitPipelineMode(connection_.get()) == 0) fail(nullptr);
    return answers;
}

void database::send(char const* prepared, parameters const& values)
{
    send_prepared(prepared, values);
    PQflush(connection_.get());
}

bool database::is_busy()
{
    if (PQtransactionStatus(connection_.get()) != PQTRANS_ACTIVE) return false;
    if (PQconsumeInput(connection_.get()) == 0) fail(nullptr);
    if (PQisBusy(connection_.get()) != 0) return true;
    while (auto* const answer = PQgetResult(connection_.get())) checked(answer);
    return false;
}

}  // namespace bench_baseline
