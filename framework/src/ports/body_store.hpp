// Where large bodies are kept, once each, under their SHA-256. See docs/bodies.md.
//
// A store that several services share knows nothing of their databases. So each of them holds what it refers to, by a
// mark of its own, and a body goes only when nobody holds it and it was not referred to for long enough. Every store
// passes tests/conformance/body_store_conformance.hpp.
#pragma once

#include "core/body_reference.hpp"

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace skald::ports {

/// A body that is not there, or is another: an operator has to bring it back.
struct body_fault : std::runtime_error
{
    enum class kind { missing, damaged };

    body_fault(kind k, std::string const& what) : std::runtime_error{what}, what_kind{k} {}

    /// Why its delivery is parked.
    std::string_view reason() const { return what_kind == kind::missing ? "body_missing" : "body_damaged"; }

    kind what_kind;
};

/// Throws body_fault unless `body` is what `what` refers to. `store`: where it was read.
inline void verify_body(core::body_reference const& what, std::string_view body, std::string const& store)
{
    if (body.size() == what.size && core::fingerprint_of(body) == what.fingerprint) return;
    throw body_fault{body_fault::kind::damaged, "the body " + what.name() + " in " + store +
                                                    " is damaged: it has other bytes than those that it is named by"};
}

inline body_fault missing_body(core::body_reference const& what, std::string const& store)
{
    auto text = "the body " + what.name() + " of " + std::to_string(what.size) + " bytes is not in " + store;
    if (!what.store.empty() && what.store != store) text += "; it was put into " + what.store;
    return {body_fault::kind::missing, text};
}

/// How far a purge of a store has come: it may take several calls.
struct purge_place
{
    std::function<bool()> is_over{};  // asked after each body, whether to go on another time; none: never
    std::string after{};              // the body that was looked at last; empty: it begins, or is through
};

/// A store apart from the service's database.
/// Threads: any. Every function throws fault{unavailable} if the store can't be reached.
class body_store
{
public:
    virtual ~body_store() = default;

    /// For people, without passwords: `directory:/srv/bodies`.
    virtual std::string name() const = 0;

    /// Keeps and holds it. When it returns, neither a crash nor a purge takes it.
    virtual void keep(core::body_reference const& what, std::string_view body) = 0;

    /// Holds what is there. False if it is not.
    virtual bool hold(core::body_reference const& what) = 0;

    /// Its bytes, verified. Throws body_fault.
    virtual std::string read(core::body_reference const& what) = 0;

    /// Looks at what was not referred to for half of `older_than`: holds what the service still refers to, gives up
    /// what it does not, and removes what is older and held by nobody. Returns how many it removed, at most `most`.
    /// Begins behind `at`, and leaves there where to go on.
    virtual std::size_t purge(std::chrono::seconds older_than, std::size_t most,
                              std::function<bool(core::body_reference const&)> const& is_in_use, purge_place& at) = 0;
};

}  // namespace skald::ports
