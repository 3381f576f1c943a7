// Large bodies in a bucket behind S3's API, for services that share no directory. In a library of its own, skald::s3,
// which needs libcurl. docs/bodies.md says what is kept where, for how long, and what this needs.
//
//     service.bodies(skald::s3());     // and SKALD_BODY_STORE=s3:https://s3.example.com/bucket/prefix
#pragma once

#include <skald/detail/body_store_maker.hpp>

namespace skald {

/// For service::bodies(). What it makes sends its requests from the thread that keeps or reads a body, while its
/// transaction is open; it is made when the service starts, and only where SKALD_BODY_STORE begins with `s3:`.
/// Throws: when it is made, configuration_error for an address or credentials that are missing or malformed, and for
/// what the server refuses: the credentials, or the bucket. A server that can't be reached is no reason not to start.
detail::body_store_maker s3();

}  // namespace skald
