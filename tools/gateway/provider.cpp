#include "provider.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gateway {
namespace {

using nlohmann::json;

constexpr std::size_t longest_text = 255;

/// What there is to say without acting.
struct refusal
{
    response answer;
};

/// A function of the entry alone, so that a replay is the first answer byte for byte, after a restart, too.
response made(entry const& of, bool is_replay)
{
    json said{{"id", of.id},
              {"amount", of.amount},
              {"currency", of.currency},
              {"reference", of.reference},
              {"status", of.status}};
    if (!of.charge.empty()) said["charge"] = of.charge;
    return {201, said.dump(), is_replay};
}

/// The value of `reference` in a query that has nothing else.
std::optional<std::string> reference_in(std::string_view query)
{
    constexpr std::string_view name{"reference="};
    if (!query.starts_with(name)) return std::nullopt;
    query.remove_prefix(name.size());
    std::string value;
    for (std::size_t i = 0; i < query.size(); ++i) {
        if (query[i] != '%') {
            value += query[i] == '+' ? ' ' : query[i];
            continue;
        }
        auto const digits = query.substr(i + 1, 2);
        std::uint8_t byte{};
        auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
        if (error != std::errc{} || end != digits.data() + 2) return std::nullopt;
        value += static_cast<char>(byte);
        i += 2;
    }
    return value;
}

/// The charge in "/charges/ID/refund".
std::optional<std::string> refunded_charge(std::string_view path)
{
    constexpr std::string_view before{"/charges/"};
    constexpr std::string_view after{"/refund"};
    if (!path.starts_with(before) || !path.ends_with(after) || path.size() <= before.size() + after.size()) return {};
    return std::string{path.substr(before.size(), path.size() - before.size() - after.size())};
}

/// Or none.
bool is_key(std::string_view text)
{
    return text.size() <= longest_text && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

bool is_currency(std::string_view text)
{
    return text.size() == 3 && std::ranges::all_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// Throws refusal.
entry read_charge(request const& asked)
{
    auto const body = json::parse(asked.body, nullptr, false);
    if (!body.is_object()) throw refusal{problem(400, "the body is no JSON object")};
    entry wanted;
    try {
        if (!body.at("amount").is_number_integer()) throw refusal{problem(400, "`amount` is in cents")};
        wanted.amount = body.at("amount").get<std::int64_t>();
        wanted.currency = body.at("currency").get<std::string>();
        wanted.reference = body.at("reference").get<std::string>();
    }
    catch (json::exception const&) {
        throw refusal{problem(400, "a charge has an `amount` in cents, a `currency` and a `reference`")};
    }
    if (wanted.amount <= 0) throw refusal{problem(400, "`amount` is above 0")};
    if (!is_currency(wanted.currency)) throw refusal{problem(400, "`currency` is three capital letters")};
    if (wanted.reference.empty() || wanted.reference.size() > longest_text)
        throw refusal{problem(400, fmt::format("`reference` has 1 to {} bytes", longest_text))};
    return wanted;
}

}  // namespace

response problem(int status, std::string_view what)
{
    json const said{{"error", what}};
    // It may quote what is no text.
    return {status, said.dump(-1, ' ', false, json::error_handler_t::replace)};
}

/// From when a request may act to when it has acted, or will not: its key is taken, and a look-up says so.
class provider::in_progress
{
public:
    /// Throws refusal if the key was used, or is in use.
    in_progress(provider& of, entry const& wanted) : of_{of}, key_{wanted.key}, reference_{wanted.reference}
    {
        std::scoped_lock const lock{of_.mutex_};
        if (!key_.empty()) take_key(wanted.request);
        ++of_.requests_in_progress_[reference_];
    }
    ~in_progress()
    {
        std::scoped_lock const lock{of_.mutex_};
        of_.keys_in_progress_.erase(key_);
        auto const count = of_.requests_in_progress_.find(reference_);
        if (--count->second == 0) of_.requests_in_progress_.erase(count);
    }
    in_progress(in_progress const&) = delete;
    in_progress& operator=(in_progress const&) = delete;

private:
    void take_key(std::string const& asked)
    {
        if (auto const known = of_.by_key_.find(key_); known != of_.by_key_.end()) {
            auto const& before = of_.book_.entries()[known->second];
            throw refusal{before.request == asked ? made(before, true)
                                                  : problem(422, "this key was used for another request")};
        }
        if (!of_.keys_in_progress_.insert(key_).second)
            throw refusal{problem(409, "a request with this key is in progress")};
    }

    provider& of_;
    std::string const key_;
    std::string const reference_;
};

provider::provider(ledger& book, provider_settings settings) : book_{book}, settings_{settings}
{
    for (std::size_t i = 0; i < book_.entries().size(); ++i) index(i);
}

void provider::index(std::size_t number)
{
    auto const& one = book_.entries()[number];
    by_id_[one.id] = number;
    if (!one.key.empty()) by_key_[one.key] = number;
    if (one.charge.empty()) charges_of_[one.reference].push_back(number);
    else refunded_[one.charge] += one.amount;
}

response provider::answer(request const& asked, circumstances const& how)
try {
    bool const is_list = asked.path == "/charges";
    auto const charge_to_refund = refunded_charge(asked.path);
    if (!is_list && !charge_to_refund) return problem(404, "there is nothing here");
    if (asked.method == "POST")
        return act(asked, is_list ? read_charge(asked) : read_refund(asked, *charge_to_refund), how);
    if (asked.method != "GET" || !is_list) return problem(405, "that is no method of this");
    if (how.before) how.before();
    if (asked.query.empty()) return list();
    auto const reference = reference_in(asked.query);
    return reference ? look_up(*reference) : problem(400, "the query is `reference=R`");
}
catch (refusal const& refused) {
    return refused.answer;
}

entry provider::read_refund(request const& asked, std::string const& charge)
{
    auto const body = json::parse(asked.body.empty() ? "{}" : asked.body, nullptr, false);
    if (!body.is_object()) throw refusal{problem(400, "the body is no JSON object")};
    std::scoped_lock const lock{mutex_};
    auto const known = by_id_.find(charge);
    if (known == by_id_.end() || !book_.entries()[known->second].charge.empty())
        throw refusal{problem(404, "there is no such charge")};
    auto const& of = book_.entries()[known->second];
    if (of.status != "succeeded") throw refusal{problem(422, "the charge was declined")};
    entry wanted{.id = {}, .charge = charge, .amount = of.amount, .currency = of.currency, .reference = of.reference};
    if (!body.contains("amount")) return wanted;
    if (!body["amount"].is_number_integer()) throw refusal{problem(400, "`amount` is in cents")};
    wanted.amount = body["amount"].get<std::int64_t>();
    if (wanted.amount <= 0 || wanted.amount > of.amount) throw refusal{problem(422, "that was not charged")};
    return wanted;
}

response provider::act(request const& asked, entry wanted, circumstances const& how)
{
    if (settings_.knows_keys) wanted.key = asked.key;
    if (!is_key(wanted.key)) return problem(400, fmt::format("a key has 1 to {} printable characters", longest_text));
    if (!wanted.key.empty()) wanted.request = asked.method + ' ' + asked.path + '\n' + asked.body;
    wanted.status = how.declines ? "declined" : "succeeded";

    in_progress const until_it_has_acted{*this, wanted};
    if (how.before) how.before();
    std::scoped_lock const lock{mutex_};
    auto const number = book_.entries().size();
    wanted.id = fmt::format("{}_{}", wanted.charge.empty() ? "ch" : "re", number + 1);
    book_.append(std::move(wanted));
    index(number);
    return made(book_.entries()[number], false);
}

/// A charge as it is listed: with what was refunded of it.
std::string provider::listed(entry const& charge) const
{
    auto said = json::parse(made(charge, false).body);
    auto const refunds = refunded_.find(charge.id);
    said["refunded"] = refunds == refunded_.end() ? 0 : refunds->second;
    return said.dump();
}

response provider::look_up(std::string const& reference)
{
    if (!settings_.answers_look_ups) return problem(404, "this gateway does not look up charges");
    std::scoped_lock const lock{mutex_};
    auto found = json::array();
    if (auto const known = charges_of_.find(reference); known != charges_of_.end()) {
        for (auto const number : known->second) found.push_back(json::parse(listed(book_.entries()[number])));
    }
    auto const pending = requests_in_progress_.find(reference);
    auto const count = pending == requests_in_progress_.end() ? 0 : pending->second;
    return {200, json{{"charges", std::move(found)}, {"pending", count}}.dump()};
}

response provider::list()
{
    std::scoped_lock const lock{mutex_};
    std::string lines;
    for (auto const& one : book_.entries()) {
        if (one.charge.empty()) lines += listed(one) + '\n';
    }
    return {.body = std::move(lines), .content_type = "application/x-ndjson"};
}

}  // namespace gateway
