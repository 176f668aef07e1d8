package essence_test

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
)

// handled returns an object after a cycle, and its stored essence.
func handled(b *testing.B) (content map[string]any, stored []byte) {
	b.Helper()
	const text = `{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": {
			"name": "one", "namespace": "default", "uid": "6a4ff5f2-7c1e-4a7e-9d3b-0f1f0a2b3c4d",
			"resourceVersion": "123456", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
			"labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "market"},
			"annotations": {"example.com/team": "blue", "kopf.zalando.org/last-handled-configuration": "{}"},
			"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]
		},
		"spec": {
			"size": 1, "image": "registry.example.com/team/app:v1.2.3",
			"args": ["--verbose", "--listen=:8080", "--workers=4"],
			"settings": {"region": "north", "tier": "gold", "backup": "daily", "zone": "a"}
		},
		"status": {"phase": "Ready"}
	}`
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		b.Fatal(err)
	}
	stored, err := essence.Encode(build(content, cleaners()...))
	if err != nil {
		b.Fatal(err)
	}
	return content, stored
}

// Every reconcile builds and encodes the essence, even without a change.
func BenchmarkBuildAndEncode(b *testing.B) {
	content, stored := handled(b)
	b.ReportAllocs()
	for b.Loop() {
		text, err := essence.Encode(build(content, cleaners()...))
		if err != nil || !bytes.Equal(text, stored) {
			b.Fatal("the encoded essence differs from the stored one: ", err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	_, stored := handled(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(stored, cleaners()...); err != nil {
			b.Fatal(err)
		}
	}
}
