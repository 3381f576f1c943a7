// What a request hears from the front, before it takes a database connection.
#pragma once

#include "entry/known_requests.hpp"
#include "entry/routes.hpp"

#include <optional>
#include <string>
#include <utility>

namespace skald::entry_detail {

/// The mark of a request at the front: released with this, unless it was left or handed over.
/// Threads: one.
class front_mark
{
public:
    front_mark() = default;
    front_mark(ports::front& of, core::saga_id id, std::string token)
        : of_{&of}, id_{std::move(id)}, token_{std::move(token)}
    {}
    front_mark(front_mark&& other) noexcept
        : of_{std::exchange(other.of_, nullptr)}, id_{std::move(other.id_)}, token_{std::move(other.token_)}
    {}
    front_mark& operator=(front_mark&& other) noexcept
    {
        std::swap(of_, other.of_);
        std::swap(id_, other.id_);
        std::swap(token_, other.token_);
        return *this;
    }
    ~front_mark()
    {
        if (of_ != nullptr) of_->release(id_, token_);
    }

    explicit operator bool() const { return of_ != nullptr; }

    /// It lasts until it expires: what it marks may still be under way.
    void leave()
    {
        if (auto* const of = std::exchange(of_, nullptr)) of->leave(token_);
    }

    /// Together with its release, the response is kept.
    void keep(ports::kept_response what)
    {
        auto* const of = std::exchange(of_, nullptr);
        of->keep_and_release(std::move(what), token_);
    }

private:
    ports::front* of_{};
    core::saga_id id_;
    std::string token_;
};

/// What the front said: the response, or what to hold while the guard is asked.
struct fronted
{
    std::optional<http::reply> made{};
    front_mark mark{};
};

/// For a request that a handler is for, and of which this process itself knows nothing. Blocks for as long as the front
/// may take, a few milliseconds.
fronted ask_front(known_requests& known, guarded_request const& r);

}  // namespace skald::entry_detail
