/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "N <key length> <key> <value length> <value> ...": lengths count bytes, so that values may contain spaces. The text
 * comes from another process, so every length is checked against the rest of the text.
 */
#include "test/sdk/carrier.h"

#include <cctype>
#include <cstdlib>

namespace nostd = opentelemetry::nostd;

static bool read_number(const std::string &text, size_t *at, size_t *number)
{
	const char *begin = text.c_str() + *at;
	char *end = nullptr;

	/* strtoul alone would take a sign, or skip to a number behind more blanks. */
	if (!std::isdigit(static_cast<unsigned char>(*begin)))
		return false;
	*number = std::strtoul(begin, &end, 10);
	*at += static_cast<size_t>(end - begin);
	return true;
}

static bool read_blank(const std::string &text, size_t *at)
{
	if (*at >= text.size() || text[*at] != ' ')
		return false;
	++*at;
	return true;
}

static bool read_counted(const std::string &text, size_t *at, std::string *out)
{
	size_t len = 0;

	if (!read_blank(text, at) || !read_number(text, at, &len) || !read_blank(text, at))
		return false;
	if (len > text.size() - *at)
		return false;
	*out = text.substr(*at, len);
	*at += len;
	return true;
}

SocketCarrier::SocketCarrier(const std::string &text)
{
	size_t at = 0;
	size_t count = 0;

	if (!read_number(text, &at, &count))
		return;
	for (size_t i = 0; i < count; i++) {
		std::string key;
		std::string value;

		if (!read_counted(text, &at, &key) || !read_counted(text, &at, &value))
			return;
		fields_[key] = value;
	}
}

nostd::string_view SocketCarrier::Get(nostd::string_view key) const noexcept
{
	auto it = fields_.find(std::string(key));

	return it != fields_.end() ? nostd::string_view(it->second) : nostd::string_view();
}

void SocketCarrier::Set(nostd::string_view key, nostd::string_view value) noexcept
{
	fields_[std::string(key)] = std::string(value);
}

std::string SocketCarrier::Serialize() const
{
	std::string text = std::to_string(fields_.size());

	for (const auto &field : fields_) {
		text += ' ' + std::to_string(field.first.size()) + ' ' + field.first;
		text += ' ' + std::to_string(field.second.size()) + ' ' + field.second;
	}
	return text;
}
