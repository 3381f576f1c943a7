// Why a request is not read any further. After a refusal the connection must close, because the start of the next
// request is unknown.
#pragma once

#include <string_view>

#include <boost/system/result.hpp>

namespace skald::http {

struct refusal
{
    int status{400};
    std::string_view detail;  // a sentence for the client; static text
};

/// A value, or the refusal instead.
template <class Value>
using or_refusal = boost::system::result<Value, refusal>;

inline constexpr refusal body_too_large{413, "The body is too large."};

}  // namespace skald::http
