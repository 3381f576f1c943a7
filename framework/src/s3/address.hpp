// Where a bucket is. Path-style: the bucket is a part of the path, so that any server and any port will do.
#pragma once

#include <string>
#include <string_view>

namespace skald::s3_detail {

struct address
{
    std::string server;  // https://host[:port]
    std::string bucket;
    std::string prefix;  // of all names; empty, or ends with `/`
};

/// Of `https://host[:port]/bucket[/prefix]`, or http on this machine: elsewhere everybody on the way could read the
/// bodies. Throws std::invalid_argument, with what it should look like.
address parse_address(std::string_view text);

}  // namespace skald::s3_detail
