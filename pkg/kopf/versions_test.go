package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func TestPollVersion_CallsForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each poll reads the next version; "" is an error.
		versions := []string{"v1.36.0", "v1.36.0", "", "", "v1.37.0", "v1.37.0", "v1.36.0"}
		seen, lines := &steps{}, &steps{}
		ctx, cancel := context.WithCancel(t.Context())
		logger := funcr.New(func(_, line string) { lines.add(line) }, funcr.Options{})
		kopf.PollVersion(ctx, logger, func(context.Context) (version.Info, error) {
			if len(versions) == 0 {
				cancel()
				return version.Info{}, context.Canceled
			}
			next := versions[0]
			versions = versions[1:]
			if next == "" {
				return version.Info{}, errors.New("injected")
			}
			return version.Info{GitVersion: next}, nil
		}, func(_ context.Context, old, current version.Info) {
			seen.add(fmt.Sprintf("%q %q", old.GitVersion, current.GitVersion))
		})
		seen.expect(t, "after all polls", `"" "v1.36.0"`, `"v1.36.0" "v1.37.0"`, `"v1.37.0" "v1.36.0"`)
		if logged := lines.take(); len(logged) != 1 || !strings.Contains(logged[0], "injected") {
			t.Errorf("logged %q, want one line for both errors", logged)
		}
	})
}

func TestPollVersion_ReadsAboutOnceInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		reads := 0
		kopf.PollVersion(ctx, funcr.New(func(string, string) {}, funcr.Options{}), func(context.Context) (version.Info, error) {
			reads++
			return version.Info{GitVersion: "v1.37.0"}, nil
		}, func(context.Context, version.Info, version.Info) {})
		if reads < 54 || reads > 60 {
			t.Errorf("%d reads in an hour, want one in each interval of 60 to 66 seconds", reads)
		}
	})
}

func TestOnVersion_IsCalledAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t), &steps{}
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("create", noopConfigMap),
			kopf.OnVersion("version", func(_ context.Context, old, current version.Info) error {
				seen.add(fmt.Sprintf("%q %q", old.GitVersion, current.GitVersion))
				if len(seen.all) < 3 {
					return errors.New("not yet")
				}
				return nil
			}, kopf.Backoff(time.Second)))
		operator.RunUntilQuiet(t)
		<-time.After(time.Hour)
		seen.expect(t, "after an hour", `"" "v1.37.0"`, `"" "v1.37.0"`, `"" "v1.37.0"`)
	})
}

func TestOnVersion_RejectsInvalidDeclarations(t *testing.T) {
	ignore := func(context.Context, version.Info, version.Info) error { return nil }
	resource := kopf.For(&corev1.ConfigMap{}).OnCreate("create", noopConfigMap)
	for name, test := range map[string]struct {
		options []kopf.Option
		want    string
	}{
		"no function": {[]kopf.Option{kopf.OnVersion("x", nil)}, `OnVersion("x"): the function is nil`},
		"same id":     {[]kopf.Option{kopf.OnVersion("x", ignore), kopf.OnVersion("x", ignore)}, `OnVersion("x"): the id is used twice`},
		"option":      {[]kopf.Option{kopf.OnVersion("x", ignore, kopf.Interval(time.Minute))}, "Interval has no effect on functions of the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kopf.New(offline{scheme: clientgoscheme.Scheme}, append(test.options, resource)...).CheckDeclaration()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
