// What handles an entry request: a handler that runs inside the guard's transaction, so that its effects and its
// response happen once for each Idempotency-Key.
//
//     service.post("/orders", [](skald::http::request_context& ctx) {
//         auto const o = ctx.json<order>();
//         auto const ended = ctx.start(place_order, create_order{}, o);
//         if (auto const* no = ended.rejected()) return skald::http::problem_response(422, no->reason);
//         return skald::http::json_response(202, {{"saga", ctx.key()}},
//                                           {{"Location", skald::http::saga_path(ctx.key())}});
//     });
//
// A returned 2xx, 3xx or 4xx is the outcome: it is stored in the same commit, and replayed byte for byte to a client
// that sends the same key again. An exception, a 5xx, and a 4xx that means "not now" or "not you" (response::is_final)
// leave nothing behind, so that the client may retry with the same key. See docs/http.md for how, and
// docs/http-responses.md for the response in each case. The header's source is
// draft-ietf-httpapi-idempotency-key-header-07.
#pragma once

#include <skald/definition.hpp>
#include <skald/detail/data.hpp>
#include <skald/detail/deadline.hpp>
#include <skald/errors.hpp>
#include <skald/http.hpp>
#include <skald/step.hpp>

#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace skald::http {

namespace detail {

/// A saga that a handler has started, to be written when its transaction commits.
struct started_saga
{
    std::string definition;
    int version{1};
    std::span<planned_step const> plan;
    std::string data;        // as at its start
    std::string attributes;  // JSON; empty: none
    std::string first_ran;   // the name of the first step if it ran in the request's own transaction, else empty
    std::string data_after;  // as the first step left it
    std::vector<skald::detail::published_message> published;
    std::chrono::milliseconds deadline{};  // from when the request was claimed; 0: none
};

}  // namespace detail

/// What an Idempotency-Key means to a route.
enum class idempotency {
    required,  // a request without one gets 400
    optional,  // a request without one gets a key of its own: it takes effect once each time that it is sent
    off,       // the header is ignored: what the handler does commits, and no record of it is kept
    /// As `required`, for a handler that starts no saga and may run again for the same key. Where SKALD_GUARD is
    /// `redis_only`, Redis alone remembers the keys: what it loses is done again, and while it is away the response is
    /// 503. Anywhere else this is `required`.
    may_repeat,
};

/// The request's body, or a parameter of its query or path, is not what its handler accepts: 400, with `what()` as the
/// detail that the client reads. json(), query() and parameter() throw it, and a handler may. Any other data_error is
/// the program's own and is treated like any exception: 500, and its text is logged.
struct body_error : data_error
{
    using data_error::data_error;
};

namespace detail {

/// `text` as a number, "true" or "false" as a bool. `what` names it in the body_error for anything else.
template <class T>
T converted(std::string const& what, std::string const& text)
{
    if constexpr (std::is_same_v<T, std::string>) return text;
    else if constexpr (std::is_same_v<T, bool>) {
        if (text != "true" && text != "false") throw body_error{what + " is neither true nor false"};
        return text == "true";
    }
    else {
        static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, char>, "a parameter is text, a number or a bool");
        T value{};
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc::result_out_of_range) throw body_error{what + " is too large, or too small"};
        bool is_finite = true;
        if constexpr (std::is_floating_point_v<T>) is_finite = std::isfinite(value);
        if (error != std::errc{} || end != text.data() + text.size() || !is_finite)
            throw body_error{what + (std::is_integral_v<T> ? " is no whole number" : " is no number")};
        return value;
    }
}

/// The value of that parameter of the query, decoded; nothing if it is absent. Throws body_error if it is there twice,
/// or is no text.
std::optional<std::string> query_text(std::string_view query, std::string const& name);

}  // namespace detail

/// A handler's view of its request, and what it may do in its transaction.
/// Lifetime, threads, transaction: as for transaction_context.
class request_context final : public transaction_context
{
public:
    /// Created by Skald.
    request_context(skald::detail::unit_of_work& unit, http::request const& request, std::string scope, std::string key,
                    trace_context trace = {})
        : transaction_context{unit, std::move(scope), std::move(trace)}, request_{request}, key_{std::move(key)}
    {}

    http::request const& request() const { return request_; }  // lives as long as this

    /// The Idempotency-Key, unquoted, or the one that Skald generated if it is optional and the client sent none. A
    /// saga that is started here has the same key. Empty if the route's idempotency is off.
    std::string const& key() const { return key_; }

    /// What the path has for `{name}` of the route's pattern, decoded. Throws std::out_of_range if the pattern has no
    /// such parameter.
    std::string const& parameter(std::string const& name) const { return request_.parameters.at(name); }

    /// The same as a number or a bool: `ctx.parameter<int>("nights")`. Throws body_error, which becomes a 400, if it is
    /// none.
    template <class T>
    T parameter(std::string const& name) const
    {
        return detail::converted<T>("the path's " + name, parameter(name));
    }

    /// What the query has for `name`, decoded, as text, a number or a bool: `ctx.query<int>("nights")` of
    /// "?city=Malm%C3%B6&nights=3". Nothing if it is absent. Throws body_error, which becomes a 400, if it is none, is
    /// there twice, or is no UTF-8.
    template <class T = std::string>
    std::optional<T> query(std::string const& name) const
    {
        auto const text = detail::query_text(request_.query, name);
        if (!text) return {};
        return detail::converted<T>("the query's " + name, *text);
    }

    /// The body as `T`. Throws body_error, which becomes a 400 that is not stored and says which member is wrong.
    template <class T>
    T json() const
    try {
        return skald::detail::read_data<T>(request_.body, {.type = "what is expected here"});
    }
    catch (data_error const& error) {
        throw body_error{error.what()};
    }

    /// Starts a saga that runs its first step here and now, in the request's own transaction. The service must
    /// host that step, whose hosted class compensates it: otherwise the request is answered with 500, and the log says
    /// what is missing. If the step rejects or snoozes, no saga is started and nothing that this handler wrote remains;
    /// the returned outcome says which. A 2xx after that, or another start(), is answered with 500, and nothing is
    /// stored.
    /// `deadline`: as in start_options, from when the request was claimed.
    /// Throws: std::logic_error if this request has already started one, or has no key; std::invalid_argument for a
    ///         negative deadline or one of more than 1000 years; data_error; what the step throws. Let all of it pass:
    ///         nothing remains, and the client may retry.
    template <class Data, step_kind... Kinds, class Step>
    [[nodiscard]] outcome start(definition<Data, Kinds...> const& saga, Step const& first_step, Data data,
                                std::chrono::milliseconds deadline = {})
    {
        static_assert(
            std::derived_from<Step, compensatable_step<Data>> || std::derived_from<Step, pivot_step<Data>> ||
                std::derived_from<Step, retriable_step<Data>>,
            "a first step that runs in the request is one transaction: start a saga whose first step calls or "
            "waits with start(saga, data)");
        auto entry = begin(saga, data, deadline);
        step_context ctx{unit(), scope(), key_, key_ + ':' + std::string{saga.steps[0].name}, 1, trace()};
        outcome const ended = base_of<Data, definition<Data, Kinds...>::kinds[0]>(first_step).execute(ctx, data);
        if (ended.is_done()) {
            entry.first_ran = saga.steps[0].name;
            entry.data_after = skald::detail::write_data(data);
            entry.published = ctx.published();
            started_.push_back(std::move(entry));
        }
        else {
            refused_ = true;
        }
        return ended;
    }

    /// Starts a saga whose first step is sent to its service. If that is this one, it must host it: otherwise the
    /// request is answered with 500. A request may call only one of the two start(), once.
    template <class Data, step_kind... Kinds>
    void start(definition<Data, Kinds...> const& saga, Data const& data, std::chrono::milliseconds deadline = {})
    {
        started_.push_back(begin(saga, data, deadline));
    }

    std::vector<detail::started_saga> const& started() const { return started_; }  // for Skald
    bool refused() const { return refused_; }  // likewise: its first step rejected or snoozed

private:
    template <class Data, step_kind Kind, class Step>
    static auto const& base_of(Step const& step)
    {
        if constexpr (Kind == step_kind::compensatable) return static_cast<compensatable_step<Data> const&>(step);
        else if constexpr (Kind == step_kind::pivot) return static_cast<pivot_step<Data> const&>(step);
        else return static_cast<retriable_step<Data> const&>(step);
    }

    template <class Definition>
    detail::started_saga begin(Definition const& saga, typename Definition::data const& data,
                               std::chrono::milliseconds deadline)
    {
        auto written = skald::detail::write_data(data);
        if (!started_.empty()) throw std::logic_error{"a request starts one saga: its key names it"};
        if (key_.empty())
            throw std::logic_error{
                "a route without Idempotency-Key has no key for a saga: use skald::start(ctx.tx(), ...)"};
        skald::detail::check_deadline(deadline);
        auto found_by = skald::detail::attributes_of(saga, data);
        return {std::string{saga.name},
                saga.version,
                saga.steps,
                std::move(written),
                std::move(found_by),
                {},
                {},
                {},
                deadline};
    }

    http::request const& request_;
    std::string key_;
    std::vector<detail::started_saga> started_;
    bool refused_{};
};

/// What handles a request. Any lane calls it, so several threads may call it at the same time.
using entry_handler = std::function<response(request_context&)>;

/// Whose request it is: the scope of its key. A key means nothing in another scope, and no client sees another scope's
/// sagas. Called for every request, including replays, before anything is looked up; any lane calls it, so several
/// threads may call it at the same time. What it throws: `unauthorized` becomes 401, data_error 400, anything else 500.
using scope_function = std::function<std::string(request const&)>;

/// The request does not prove who sent it. `what()` is for the client.
struct unauthorized : std::runtime_error
{
    /// `what` is the response's detail, `how` its challenge.
    explicit unauthorized(std::string const& what, std::string how = "Bearer")
        : std::runtime_error{what}, challenge{std::move(how)}
    {}
    std::string challenge;  // how to prove it: the WWW-Authenticate of the 401 (RFC 9110, 11.6.1)
};

/// How a request without the header that names its scope is treated.
enum class scope_header {
    required,  // refused with 400
    optional,  // belongs to the scope '', which is then a tenant like any other
};

/// The scope is in this header, which a proxy in front sets; requests from elsewhere must not reach the service.
/// Without the header, or with an empty one, the request is refused unless `presence` says otherwise: a proxy that
/// omits it must not put all clients into one scope. A request with two such headers is always refused: a proxy that
/// appends would let the client choose.
scope_function scope_from_header(std::string name, scope_header presence = scope_header::required);

/// The scope of this token, or nothing if the token is unknown. May query another server: it blocks only its own lane.
/// If it compares tokens itself, is_same_secret() does so without revealing by its timing how much was right.
using token_function = std::function<std::optional<std::string>(std::string const& token)>;

/// The scope is that of the token in `Authorization: Bearer <token>` (RFC 6750); without a token that `scope_of` knows,
/// 401.
scope_function scope_from_bearer(token_function scope_of);

/// A table of tokens, as from a file of secrets: {token, scope}. Several tokens may have the same scope, so that one
/// can be replaced while the other still works. Throws configuration_error for a token that no header can carry.
scope_function scope_from_bearer(std::map<std::string, std::string> const& scope_of_token);

/// Takes the same time wherever the two differ, whatever their lengths.
bool is_same_secret(std::string_view a, std::string_view b);

/// application/json.
response json_response(int status, nlohmann::json const& body, header_list headers = {});

/// application/problem+json (RFC 9457).
response problem_response(int status, std::string_view detail);

/// The path of a saga's state: `/sagas/<key>`, with the characters that a path can't hold escaped (RFC 3986).
std::string saga_path(std::string_view key);

}  // namespace skald::http
