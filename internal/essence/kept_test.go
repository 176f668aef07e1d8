package essence_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestKeepsAndClears(t *testing.T) {
	annotation := func(key string) []string { return []string{"metadata", "annotations", key} }
	b := essence.Builder{
		Fields: [][]string{{"status", "phase"}, annotation("kubectl.kubernetes.io/last-applied-configuration"), annotation("own.example.com/x")},
		Cleaners: []essence.Cleaner{
			progress.IgnoringFields(progress.AnnotationBaseline(""), "spec.replicas"), progress.Annotations("own.example.com"), progress.Status("status.progress"),
		},
	}
	for _, test := range []struct {
		path          []string
		keeps, clears bool
	}{
		{[]string{"spec", "size"}, true, false},
		{[]string{"spec"}, true, false},
		{[]string{"spec", "replicas"}, false, true},
		{[]string{"spec", "replicas", "below"}, false, true},
		{[]string{"data"}, true, false},
		{[]string{"kind"}, false, false},
		{[]string{"metadata", "labels", "a"}, true, false},
		{[]string{"metadata", "labels"}, true, false},
		{[]string{"metadata", "generation"}, false, false},
		{annotation("a"), true, false},
		{annotation("own.example.com/x"), false, true},
		{annotation("kopf.zalando.org/x"), false, false},
		{annotation("kopf.zalando.org/last-handled-configuration"), false, true},
		{annotation("kubectl.kubernetes.io/last-applied-configuration"), true, false},
		{[]string{"status", "phase"}, true, false},
		{[]string{"status", "phase", "below"}, true, false},
		{[]string{"status", "other"}, false, false},
		{[]string{"status", "progress", "x"}, false, true},
	} {
		t.Run(strings.Join(test.path, "."), func(t *testing.T) {
			if keeps, clears := b.Keeps(test.path), b.Clears(test.path); keeps != test.keeps || clears != test.clears {
				t.Errorf("keeps %t, clears %t, want %t, %t", keeps, clears, test.keeps, test.clears)
			}
		})
	}
}
