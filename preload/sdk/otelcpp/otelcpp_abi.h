/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of opentelemetry-cpp's C++ ABI that the adapter relies on: mangled names, vtable slots
 * and member offsets, the same from 1.0.0 on. The ABI version is a part of the names (v1, v2). A
 * build uses either smart pointers of its own (nostd, 32 bytes, type-erased) or the standard
 * library's (16 bytes); only a returned object shows which. test/otelcpp checks all of this with
 * the real headers.
 */
#ifndef SP_OTELCPP_ABI_H
#define SP_OTELCPP_ABI_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mangled names; V is 1 or 2 as a string literal. */
#define SP_OTELCPP_NAME(V, rest) "_ZN13opentelemetry2v" V rest
#define SP_OTELCPP_START_NOSTD(V)                                                                  \
	SP_OTELCPP_NAME(V, "3sdk5trace6Tracer9StartSpanENS0_5nostd11string_viewE"                  \
			   "RKNS0_6common16KeyValueIterableE"                                      \
			   "RKNS0_5trace27SpanContextKeyValueIterableE"                            \
			   "RKNSA_16StartSpanOptionsE")
#define SP_OTELCPP_START_STL(V)                                                                    \
	SP_OTELCPP_NAME(V,                                                                         \
			"3sdk5trace6Tracer9StartSpanESt17basic_string_viewIcSt11char_traitsIcEE"   \
			"RKNS0_6common16KeyValueIterableE"                                         \
			"RKNS0_5trace27SpanContextKeyValueIterableE"                               \
			"RKNSC_16StartSpanOptionsE")
#define SP_OTELCPP_SPAN_VTABLE(V) "_ZTVN13opentelemetry2v" V "3sdk5trace4SpanE"
#define SP_OTELCPP_TRACER_VTABLE(V) "_ZTVN13opentelemetry2v" V "3sdk5trace6TracerE"
#define SP_OTELCPP_CONTROL_INSIDE_VTABLE(V)                                                        \
	"_ZTVSt23_Sp_counted_ptr_inplaceIN13opentelemetry2v" V "3sdk5trace4SpanESaIvE"             \
	"LN9__gnu_cxx12_Lock_policyE2EE"
#define SP_OTELCPP_CONTROL_POINTER_VTABLE(V)                                                       \
	"_ZTVSt15_Sp_counted_ptrIPN13opentelemetry2v" V "3sdk5trace4SpanE"                         \
	"LN9__gnu_cxx12_Lock_policyE2EE"
#define SP_OTELCPP_STORAGE(V)                                                                      \
	"_ZZN13opentelemetry2v" V "7context14RuntimeContext10GetStorageEvE7context"
#define SP_OTELCPP_STORAGE_CLASS(V)                                                                \
	"_ZTVN13opentelemetry2v" V "7context25ThreadLocalContextStorageE"

/* An object's vptr points behind offset-to-top and typeinfo. */
#define SP_OTELCPP_VTABLE_HEAD 2U

/* Slots of trace::Span that both versions share; AddLink and AddLinks shift the rest in v2. */
#define SP_OTELCPP_SLOT_D1 0U
#define SP_OTELCPP_SLOT_D0 1U
#define SP_OTELCPP_SLOT_SET_ATTRIBUTE 2U
#define SP_OTELCPP_SLOT_END_V1 9U
#define SP_OTELCPP_SLOT_END_V2 11U
#define SP_OTELCPP_SLOT_RENAME_BEFORE_END 1U
#define SP_OTELCPP_SLOT_SET_STATUS_BEFORE_END 2U
/* These follow End. */
#define SP_OTELCPP_SLOT_GET_CONTEXT_AFTER_END 1U
#define SP_OTELCPP_SLOT_IS_RECORDING_AFTER_END 2U

/* Slot of trace::Tracer. */
#define SP_OTELCPP_SLOT_START 2U

/* Numbers of virtual functions; v2's tracer no longer has the two for flushing and closing. */
#define SP_OTELCPP_TRACER_SLOTS_V1 5U
#define SP_OTELCPP_TRACER_SLOTS_V2 3U
#define SP_OTELCPP_SPAN_SLOTS_V1 12U
#define SP_OTELCPP_SPAN_SLOTS_V2 14U

/* Slots of common::KeyValueIterable, and the first of trace::SpanContextKeyValueIterable. */
#define SP_OTELCPP_SLOT_FOR_EACH 2U
#define SP_OTELCPP_SLOT_SIZE 3U

/* Slots of context::RuntimeContextStorage. */
#define SP_OTELCPP_SLOT_GET_CURRENT 0U
#define SP_OTELCPP_SLOT_ATTACH 1U
#define SP_OTELCPP_SLOT_DETACH 2U
#define SP_OTELCPP_STORAGE_SLOT_D1 3U
#define SP_OTELCPP_STORAGE_SLOTS 5U
/* A host's own class may have further virtual functions. */
#define SP_OTELCPP_STORAGE_SLOTS_MAX 32U

/*
 * The resource, which is private as well. The span has a shared_ptr to its tracer, and one of the
 * tracer's first words is a shared_ptr to its context. Since 1.19 the context's typeinfo identifies
 * it. Behind the context's vptr is the Resource, which begins with a std::unordered_map of
 * std::string to OwnedAttributeValue. The layout of libstdc++: in the map the first node and the
 * number of nodes; in a node the next node, the key, the value and the index of the value's
 * alternative; in a string its text and its length.
 */
#define SP_OTELCPP_SPAN_TRACER 8U
#define SP_OTELCPP_TRACER_WORDS 7U
#define SP_OTELCPP_CONTEXT_TYPE(V) "N13opentelemetry2v" V "3sdk5trace13TracerContextE"
#define SP_OTELCPP_RESOURCE_FIRST 24U
#define SP_OTELCPP_RESOURCE_COUNT 32U
#define SP_OTELCPP_OWNED_KEY 8U
#define SP_OTELCPP_OWNED_VALUE 40U
#define SP_OTELCPP_OWNED_INDEX 80U
#define SP_OTELCPP_STRING_LENGTH 8U
#define SP_OTELCPP_OWNED_IS_STRING 5U

/* SpanContext: trace id at 0. Its trace state, a smart pointer, is the last member. */
#define SP_OTELCPP_CONTEXT_SPAN_ID 16U
#define SP_OTELCPP_CONTEXT_FLAGS 24U
#define SP_OTELCPP_CONTEXT_REMOTE 25U /* bool */
#define SP_OTELCPP_CONTEXT_STATE 32U
#define SP_OTELCPP_FLAG_SAMPLED 1U

/*
 * sdk::trace::Span, private: vptr, shared_ptr<Tracer>, mutex, unique_ptr<Recordable>, a time; then
 * unique_ptr<SpanContext> from 1.0.0 to 1.28, SpanContext itself later. This is no interface of the
 * SDK, so a real span must prove it.
 */
#define SP_OTELCPP_SPAN_RECORDABLE (8U + 16U + sizeof(pthread_mutex_t))
#define SP_OTELCPP_SPAN_CONTEXT (SP_OTELCPP_SPAN_RECORDABLE + 8U + 8U)

/* StartSpanOptions::parent, a variant of SpanContext and Context. */
#define SP_OTELCPP_OPTIONS_PARENT 16U
#define SP_OTELCPP_PARENT_IS_SPAN_CONTEXT 0U
#define SP_OTELCPP_PARENT_IS_CONTEXT 1U

/* trace::StatusCode */
#define SP_OTELCPP_STATUS_ERROR 2

/* The alternatives of a context's values. */
#define SP_OTELCPP_VALUE_IS_BOOL 1U
#define SP_OTELCPP_VALUE_IS_SPAN 5U
/* Today there are eight; later releases may add some. */
#define SP_OTELCPP_VALUES_MAX 32U
#define SP_OTELCPP_KEY_SPAN "active_span"
#define SP_OTELCPP_KEY_IS_ROOT "is_root_span"

/*
 * common::AttributeValue: the indexes of its alternatives; all others are arrays. On these
 * little-endian processors the index may be a byte. The type is trivially copyable, so C passes
 * such a struct by value as C++ does.
 */
enum sp_otelcpp_attribute_is {
	SP_OTELCPP_ATTRIBUTE_IS_BOOL = 0,
	SP_OTELCPP_ATTRIBUTE_IS_INT32 = 1,
	SP_OTELCPP_ATTRIBUTE_IS_INT64 = 2,
	SP_OTELCPP_ATTRIBUTE_IS_UINT32 = 3,
	SP_OTELCPP_ATTRIBUTE_IS_DOUBLE = 4,
	SP_OTELCPP_ATTRIBUTE_IS_STRING = 5, /* const char * */
	SP_OTELCPP_ATTRIBUTE_IS_VIEW = 6,   /* a string view: length, then text */
	SP_OTELCPP_ATTRIBUTE_IS_UINT64 = 13,
};
struct sp_otelcpp_attribute {
	union {
		const char *string;
		int64_t integer;
		uint64_t natural;
		int32_t integer_32;
		uint32_t natural_32;
		double real;
		bool is;
		size_t length;
	} value;
	const char *view;
	unsigned long index;
};

/*
 * context::Token, private: a context, since 1.24.0 behind a vptr. The adapter learns the offset
 * from the first token: a multiple of a pointer's size.
 */
#define SP_OTELCPP_TOKEN_CONTEXT_MAX 24U

/*
 * The differences between the two kinds of build. A context is one smart pointer to the head of a
 * list of nodes {key, smart pointer to the next, key length, value}; the index of a variant follows
 * its storage.
 */
struct sp_otelcpp_flavour {
	unsigned char pointee;      /* in a smart pointer: the pointer to the object */
	unsigned char span_context; /* size of a SpanContext */
	unsigned char parent_index; /* in StartSpanOptions: the index of parent */
	unsigned char node_next;    /* in a node: the smart pointer to the next one */
	unsigned char node_key_len;
	unsigned char node_value;
	unsigned char node_index; /* in a node: the index of the value */
};
#define SP_OTELCPP_FLAVOUR_NOSTD                                                                   \
	{                                                                                          \
		.pointee = 8, .span_context = 64, .parent_index = 80, .node_next = 8,              \
		.node_key_len = 40, .node_value = 48, .node_index = 80                             \
	}
#define SP_OTELCPP_FLAVOUR_STD                                                                     \
	{                                                                                          \
		.pointee = 0, .span_context = 48, .parent_index = 64, .node_next = 8,              \
		.node_key_len = 24, .node_value = 32, .node_index = 48                             \
	}
#define SP_OTELCPP_NODE_KEY 0U
/* A context holds a handful of values; bounds the walk. */
#define SP_OTELCPP_NODES_MAX 64U

/* A standard smart pointer's control block (libstdc++): vptr, use count, weak count. */
#define SP_OTELCPP_STD_CONTROL 8U
#define SP_OTELCPP_CONTROL_USES 8U
#define SP_OTELCPP_CONTROL_WEAK 12U
#define SP_OTELCPP_CONTROL_SLOT_DISPOSE 2U
#define SP_OTELCPP_CONTROL_SLOT_DESTROY 3U
#define SP_OTELCPP_CONTROL_SLOTS 5U
/* Either the object itself lies in the control block (make_shared), or the pointer to it. */
#define SP_OTELCPP_CONTROL_OBJECT 16U
/*
 * libc++ has the same slots, but two longs as counters. The adapter does not read libc++'s smart
 * pointers, only nostd's.
 */
#define SP_OTELCPP_LIBCXX_CONTROL_OBJECT 24U
/* The class overrides this many; the fourth function may be in libc++.so. */
#define SP_OTELCPP_LIBCXX_CONTROL_SLOTS 3U

/*
 * Large enough for any object that the SDK returns in memory: SpanContext has 64 bytes, Context 32.
 */
struct sp_otelcpp_object {
	_Alignas(16) unsigned char bytes[128];
};

#endif
