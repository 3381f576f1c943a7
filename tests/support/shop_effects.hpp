// Everything that the steps of the order example have done in their databases, as text to compare.
#pragma once

#include <string>

namespace skald::test {

/// `rows(service, sql)`: all rows there, columns joined by '|', rows by '\n'.
template <class Rows>
std::string shop_effects(Rows const& rows)
{
    return rows("orders", "SELECT id, status FROM customer_order ORDER BY 1") + " / " +
           rows("payments", "SELECT cents FROM wallet") + ' ' +
           rows("payments", "SELECT order_id, kind, count(*) FROM charge GROUP BY 1, 2 ORDER BY 1, 2") + " / " +
           rows("shipping", "SELECT free FROM stock") + ' ' +
           rows("shipping", "SELECT order_id, count(*) FROM shipment GROUP BY 1 ORDER BY 1");
}

/// Of one order that has been completed, has found nothing in stock, or is cancelled before its charge.
inline constexpr auto completed = "o-1|confirmed / 900 o-1|charge|1 / 4 o-1|1";
inline constexpr auto refunded = "o-1|cancelled / 1000 o-1|charge|1\no-1|refund|1 / 5 ";
inline constexpr auto not_charged = "o-1|cancelled / 1000  / 5 ";

}  // namespace skald::test
