#include <skald/testing/views.hpp>

namespace skald::testing {

std::ostream& operator<<(std::ostream& out, rows const& all)
{
    out << '{';
    for (std::size_t i = 0; i < all.size(); ++i) out << (i == 0 ? "\"" : ", \"") << all[i] << '"';
    return out << '}';
}

}  // namespace skald::testing
