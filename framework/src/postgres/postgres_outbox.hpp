// The outbox as the relay sees it, over libpqxx.
#pragma once

#include "ports/store.hpp"
#include "postgres/connection.hpp"

#include <memory>

namespace skald::postgres {

class postgres_outbox final : public ports::outbox
{
public:
    explicit postgres_outbox(connection_options options);
    ~postgres_outbox() override;

    std::vector<row> take(std::size_t max) override;
    void settle_all() override;
    void settle(std::vector<std::int64_t> const& confirmed, std::vector<put_off> const& failed) override;
    void release() noexcept override;

private:
    template <class Work> auto guarded(Work work);

    connection_options options_;
    std::unique_ptr<connection> connection_;
    bool in_transaction_{};
};

}  // namespace skald::postgres
