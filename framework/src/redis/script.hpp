// The scripts that run in Redis: one round trip for each act, called by hash.
#pragma once

#include "redis/link.hpp"

#include <string>
#include <string_view>

namespace skald::redis_detail {

/// A script of scripts/, and the call of it.
class script
{
public:
    explicit script(std::string_view text);

    /// By hash, which a server knows that has run it before.
    words by_hash(words const& keys, words const& arguments) const { return call("EVALSHA", hash_, keys, arguments); }

    /// By its text: from then on the server knows it.
    words by_text(words const& keys, words const& arguments) const { return call("EVAL", text_, keys, arguments); }

    /// By hash, and by its text where the server does not know it.
    reply run(link& on, words const& keys, words const& arguments, link::clock::time_point until) const;

    static bool is_unknown(reply const& answer) { return answer.error().starts_with("NOSCRIPT"); }

private:
    static words call(std::string command, std::string const& what, words const& keys, words const& arguments);

    std::string text_;
    std::string hash_;
};

script const& acquire_script();
script const& keep_script();
script const& release_script();
script const& extend_script();

}  // namespace skald::redis_detail
