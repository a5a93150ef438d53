// SPDX-License-Identifier: Apache-2.0

// Prints each field of OpenTelemetry's profiles as "Message.field = number", to compare with export/proto/otlp.proto.
package main

import (
	"fmt"

	collector "go.opentelemetry.io/proto/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	profiles "go.opentelemetry.io/proto/otlp/profiles/v1development"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func main() {
	for _, file := range []protoreflect.FileDescriptor{
		collector.File_opentelemetry_proto_collector_profiles_v1development_profiles_service_proto,
		common.File_opentelemetry_proto_common_v1_common_proto,
		profiles.File_opentelemetry_proto_profiles_v1development_profiles_proto,
		resource.File_opentelemetry_proto_resource_v1_resource_proto,
	} {
		for i := 0; i < file.Messages().Len(); i++ {
			message := file.Messages().Get(i)
			for k := 0; k < message.Fields().Len(); k++ {
				field := message.Fields().Get(k)
				kind := field.Kind().String()
				if field.Message() != nil {
					kind = string(field.Message().Name())
				}
				if field.IsList() {
					kind = "repeated " + kind
				}
				fmt.Printf("%s %s %s = %d\n", message.Name(), kind, field.Name(), field.Number())
			}
		}
	}
}
