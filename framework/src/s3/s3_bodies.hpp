// Large bodies as objects of a bucket. There is no lock there that would keep a purge from a use, so nothing that is
// relied on is ever what a purge may take: each use that finds a body or a mark older than an hour makes a new one, of
// a new name, and a purge takes only old ones by their names. See docs/adr/0051-bodies-behind-s3.md.
//
//     PREFIX abcd.../body.UNIQUE             the body; when it came says when it was last referred to
//     PREFIX abcd.../held.HOLDER.UNIQUE      empty: HOLDER refers to it
#pragma once

#include "ports/body_store.hpp"
#include "s3/client.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace skald::s3_detail {

/// Threads: any; and any process that has the bucket.
class s3_bodies final : public ports::body_store
{
public:
    /// `holder`: who refers to what is kept here; letters, digits and `-`.
    s3_bodies(client_options options, std::string holder);

    /// Whether the server lets us in: empty, or why not. Throws ports::fault{unavailable} if it can't be asked.
    std::string refusal();

    std::string name() const override;
    void keep(core::body_reference const& what, std::string_view body) override;
    bool hold(core::body_reference const& what) override;
    std::string read(core::body_reference const& what) override;
    std::size_t purge(std::chrono::seconds older_than, std::size_t most,
                      std::function<bool(core::body_reference const&)> const& is_in_use,
                      ports::purge_place& at) override;

private:
    struct object;
    struct known;

    known look(std::string const& hex);
    bool renew(known const& at);
    void mark(known const& at);
    bool purge_one(known const& at, std::chrono::seconds older_than,
                   std::function<bool(core::body_reference const&)> const& is_in_use);
    void put(std::string const& name, std::string_view body, std::string const& sha256, std::string const& copy_of);
    void remove(std::string const& name);
    bool is_our_mark(object const& one) const;

    client client_;
    std::string const holder_;
};

}  // namespace skald::s3_detail
