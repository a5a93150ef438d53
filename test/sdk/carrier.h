/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The propagation string of the C interface as a carrier for opentelemetry-cpp's propagators.
 * Who calls: span.cc.
 */
#ifndef SP_TEST_CARRIER_H
#define SP_TEST_CARRIER_H

#include <map>
#include <string>

#include <opentelemetry/context/propagation/text_map_propagator.h>

class SocketCarrier : public opentelemetry::context::propagation::TextMapCarrier
{
      public:
	SocketCarrier() = default;

	/* Reads text up to its first malformed field; the fields before it count. */
	explicit SocketCarrier(const std::string &text);

	opentelemetry::nostd::string_view
	Get(opentelemetry::nostd::string_view key) const noexcept override;
	void Set(opentelemetry::nostd::string_view key,
		 opentelemetry::nostd::string_view value) noexcept override;

	std::string Serialize() const;

      private:
	std::map<std::string, std::string> fields_;
};

#endif
