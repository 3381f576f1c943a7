// The table of started steps over libpqxx.
#pragma once

#include "ports/started.hpp"
#include "postgres/connection.hpp"

#include <memory>

namespace skald::postgres {

class postgres_started final : public ports::started_steps
{
public:
    explicit postgres_started(connection_options options) : options_{std::move(options)} {}

    std::vector<taken> take_ending(std::string_view owner, std::size_t most) override;
    std::vector<taken> take(std::string_view owner, ports::started_kind kind, std::string_view dependency,
                            std::size_t most) override;
    std::vector<renewal> renew(std::span<held const> all) override;
    void note(std::string_view owner, breaker const& one) override;
    ports::release_result release(ports::started_release const& what) override;

private:
    pqxx::result run(std::string const& text);

    connection_options options_;
    std::unique_ptr<connection> connection_;
};

}  // namespace skald::postgres
