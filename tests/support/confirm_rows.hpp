// An outbox without a publish loop around it.
#pragma once

#include "ports/store.hpp"

#include <cstdint>
#include <vector>

namespace skald::test {

/// All of them were confirmed.
inline void confirm_all(ports::outbox& of, std::vector<ports::outbox::row> const& rows)
{
    std::vector<std::int64_t> ids;
    for (auto const& row : rows) ids.push_back(row.id);
    of.resolve(ids, {});
}

}  // namespace skald::test
