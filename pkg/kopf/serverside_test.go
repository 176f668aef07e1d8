package kopf_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// The API server in memory ignores shard selectors. test/e2e has the tests with a real one that knows them.

func serverSide(index, total int) kopf.Option {
	return kopf.WithSharding(sharding.ServerSide("maps", index, total, sharding.LeaseNamespace("default")))
}

// A serverSideShard is a running process.
type serverSideShard struct {
	ring     sharding.Ring
	log      *texts // of the operator
	warnings func() int
	stop     func() error
}

func (s *serverSideShard) selects(t *testing.T, obj configMap) bool {
	t.Helper()
	selected, err := s.ring.Selector().Matches(obj)
	if err != nil {
		t.Fatal(err)
	}
	return selected
}

func startServerSide(t *testing.T, c *kopftest.Cluster, index, total int, options ...kopf.Option) *serverSideShard {
	t.Helper()
	lines, mu, warnings := &texts{}, sync.Mutex{}, 0
	logger := funcr.New(func(_, line string) {
		lines.addf("%s", line)
		if strings.Contains(line, "The API server ignores shard selectors") {
			mu.Lock()
			defer mu.Unlock()
			warnings++
		}
	}, funcr.Options{})
	mgr, err := manager.New(c.Config, manager.Options{Scheme: c.Scheme, Metrics: server.Options{BindAddress: "0"}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := kopf.SetupWithManager(mgr, append(slices.Clone(options), serverSide(index, total))...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return &serverSideShard{
		ring: sharding.ServerSide("maps", index, total), log: lines,
		warnings: func() int { mu.Lock(); defer mu.Unlock(); return warnings },
		stop:     func() error { cancel(); return <-ended },
	}
}

func TestServerSide_EachObjectHasOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t), &texts{}
		handlers := func(index int) kopf.Option {
			by := fmt.Sprint(index)
			return kopf.For(&corev1.ConfigMap{}).OnCreate("create", log.handler("create by "+by)).OnUpdate("update", log.handler("update by "+by)).
				OnDelete("delete", log.handler("delete by "+by))
		}
		var objects []configMap
		add := func(count int) {
			for range count {
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%03d", len(objects))}}
				c.Create(t, obj)
				objects = append(objects, obj)
			}
		}
		add(30) // some objects exist before the processes
		var shards []*serverSideShard
		for index := range 3 {
			shards = append(shards, startServerSide(t, c, index, 3, handlers(index)))
		}
		add(30)
		handled := func(verb string) string {
			var want []string
			for _, obj := range objects {
				for index, shard := range shards {
					if shard.selects(t, obj) {
						want = append(want, fmt.Sprintf("%s by %d default/%s", verb, index, obj.Name))
					}
				}
			}
			slices.Sort(want)
			return strings.Join(want, ", ")
		}
		expectTexts(t, log, handled("create"))
		for _, obj := range objects {
			label(t, c, obj, "app", "a")
		}
		expectTexts(t, log, handled("update"))
		for _, obj := range objects {
			c.Delete(t, obj)
		}
		expectTexts(t, log, handled("delete"))
		for index, shard := range shards {
			if count := shard.warnings(); count != 1 {
				t.Errorf("process %d has logged %d warnings about the API server, want 1", index, count)
			}
			if err := shard.stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// An object that is created again has another UID, and may belong to another process.
func TestServerSide_RecreatedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t), &texts{}
		var shards []*serverSideShard
		for index := range 3 {
			by := fmt.Sprint(index)
			shards = append(shards, startServerSide(t, c, index, 3, kopf.For(&corev1.ConfigMap{}).
				OnCreate("create", log.handler("create by "+by)).OnDelete("delete", log.handler("delete by "+by), kopf.Optional())))
		}
		owners := map[int]bool{}
		for range 20 {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			c.Create(t, obj)
			owner := slices.IndexFunc(shards, func(s *serverSideShard) bool { return s.selects(t, obj) })
			expectTexts(t, log, fmt.Sprintf("create by %d default/a", owner))
			c.Delete(t, obj)
			expectTexts(t, log, fmt.Sprintf("delete by %d default/a", owner))
			owners[owner] = true
		}
		if len(owners) < 2 {
			t.Errorf("the owners are %v, want several", slices.Collect(maps.Keys(owners)))
		}
		for _, shard := range shards {
			if err := shard.stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// With another number of shards, other processes continue unfinished cycles, and handle what has changed in the meantime.
func TestServerSide_Resize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 30
		c, log := shardCluster(t), &texts{}
		handlers := func(isReady bool) kopf.Option {
			return kopf.For(&corev1.ConfigMap{}).
				OnCreate("first", log.handler("first")).
				OnCreate("second", func(_ context.Context, req *kopf.Request[configMap]) error {
					if !isReady {
						return kopf.Temporary(fmt.Errorf("not ready"), time.Minute)
					}
					log.addf("second %s", req.Object.Name)
					return nil
				}).
				OnUpdate("update", log.handler("update")).
				OnDelete("delete", log.handler("delete"))
		}
		var objects []configMap
		for i := range count {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%03d", i)}}
			c.Create(t, obj)
			objects = append(objects, obj)
		}
		all := func(format string) string {
			var texts []string
			for _, obj := range objects {
				texts = append(texts, fmt.Sprintf(format, obj.Name))
			}
			return strings.Join(texts, ", ")
		}
		var old []*serverSideShard
		for index := range 3 {
			old = append(old, startServerSide(t, c, index, 3, handlers(false)))
		}
		expectTexts(t, log, all("first default/%s"))

		early := startServerSide(t, c, 0, 2, handlers(true))
		expectTexts(t, log, "")
		want := `of the ring "maps" with 3 shards, but this process has 2: stop all processes of the ring before you change the number of shards`
		if err := early.stop(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
		if logged := early.log.take(); !strings.Contains(logged, "Waiting until the Lease of a process with another number of shards expires") {
			t.Errorf("the log of the refused process has no line about the Lease: %s", logged)
		}

		for _, shard := range old {
			if err := shard.stop(); err != nil {
				t.Error(err)
			}
		}
		c.Delete(t, objects[0]) // no process handles the deletion yet
		label(t, c, objects[1], "app", "a")
		var resized []*serverSideShard
		for index := range 2 {
			resized = append(resized, startServerSide(t, c, index, 2, handlers(true)))
		}
		deleted := objects[0].Name
		objects = objects[1:]
		expectTexts(t, log, fmt.Sprintf("delete default/%s, ", deleted)+all("second %s")+fmt.Sprintf(", update default/%s", objects[0].Name))
		for _, shard := range resized {
			if err := shard.stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestServerSide_TwoProcessesWithOneIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t), &texts{}
		maps := func(by string) kopf.Option { return kopf.For(&corev1.ConfigMap{}).OnCreate(by, log.handler(by)) }
		first := startServerSide(t, c, 0, 1, maps("first"))
		<-time.After(time.Minute)
		second := startServerSide(t, c, 0, 1, maps("second"))
		c.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		expectTexts(t, log, "first default/a")
		if err := second.stop(); err == nil || !strings.Contains(err.Error(), `two processes are the shard "maps-0"`) {
			t.Errorf("error = %v, want an error about the index", err)
		}
		if err := first.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Kinds with only indexes, and related kinds, are not restricted to the objects of the process.
func TestServerSide_OtherKindsAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t), &texts{}
		secrets := kopf.For(&corev1.Secret{})
		index := kopf.IndexBy(secrets, "byName", func(_ context.Context, req *kopf.Request[*corev1.Secret]) (map[string]int, error) {
			return map[string]int{"all": 1}, nil
		})
		for i := range 20 {
			c.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}, mapIn("default", fmt.Sprint("m", i)))
		}
		shard := startServerSide(t, c, 0, 1000, secrets, kopf.For(&corev1.ConfigMap{}).OnCreate("create", log.handler("create")))
		<-time.After(time.Minute)
		if count := len(index.Get("all")); count != 20 {
			t.Errorf("the index has %d objects, want all 20", count)
		}
		if got := log.take(); strings.Count(got, "create") > 2 {
			t.Errorf("one of 1000 processes has handled %q, want at most two objects", got)
		}
		if err := shard.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestServerSide_InvalidDeclarations(t *testing.T) {
	maps := func() *kopf.Resource[configMap] {
		return kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(context.Context, *kopf.Request[configMap]) error { return nil })
	}
	indexed := maps()
	kopf.IndexBy(indexed, "byName", func(context.Context, *kopf.Request[configMap]) (map[string]int, error) { return nil, nil })
	for name, c := range map[string]struct {
		options []kopf.Option
		want    string
	}{
		"an index of the ring": {[]kopf.Option{maps(), serverSide(3, 3)}, "WithSharding: ServerSide(\"maps\"): the index must be between 0 and 2, got 3"},
		"an index of objects":  {[]kopf.Option{indexed, serverSide(0, 3)}, `IndexBy("byName"): with WithSharding, the index would contain only the objects of one replica`},
		"peering":              {[]kopf.Option{maps(), serverSide(0, 3), kopf.WithPeering(peering.Options{})}, "pause each other: set Tie to peering.Share"},
		"no durations":         {[]kopf.Option{maps(), serverSide(0, 3), kopf.WithLeaseDurations(0, 0, 0)}, "remove WithLeaseDurations(0, 0, 0)"},
		"no namespace":         {[]kopf.Option{maps(), kopf.WithSharding(sharding.ServerSide("maps", 0, 3))}, "use sharding.LeaseNamespace"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kopf.New(newShardManager(t, shardCluster(t)), c.options...).CheckDeclaration()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckDeclaration() = %v, want %q", err, c.want)
			}
		})
	}
}

// The test kit does not wait for the objects of other processes.
func TestServerSide_TestKit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t), &texts{}
		for i := range 10 {
			c.Create(t, mapIn("default", fmt.Sprint("m", i)))
		}
		for index := range 2 {
			c.Run(t, serverSide(index, 2), kopf.For(&corev1.ConfigMap{}).OnCreate("create", log.handler("create"))).RunUntilQuiet(t)
		}
		if got := log.take(); strings.Count(got, "create") != 10 {
			t.Errorf("the processes have handled %s, want 10 objects", got)
		}
	})
}

func TestWriteRights_ServerSide(t *testing.T) {
	maps := kopf.For(&corev1.ConfigMap{}).OnEvent("event", func(context.Context, *kopf.Request[configMap]) error { return nil })
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{})
	var out bytes.Buffer
	if err := kopf.WriteRights(&out, scheme, rights.Options{Name: "maps"}, maps, serverSide(0, 3)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "sharding: the Leases of the shards") || strings.Contains(got, "controllerrings") || strings.Contains(got, "patch") && strings.Contains(got, "released objects") {
		t.Errorf("the roles must contain the Leases, and neither ControllerRings nor labels:\n%s", got)
	}
}

// Each way to watch a kind has informers of its own.
func TestServerSide_AllKindsOfInformers(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	typed := func(log *texts, options ...kopf.ResourceOption) kopf.Option {
		return kopf.For(&corev1.ConfigMap{}, options...).OnCreate("create", log.handler("create"))
	}
	untyped := func(log *texts) *kopf.Resource[*unstructured.Unstructured] {
		return kopf.For(kopf.Unstructured(gvk)).OnCreate("create", func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			log.addf("create default/%s", req.Object.GetName())
			return nil
		})
	}
	for name, declare := range map[string]func(log *texts) []kopf.Option{
		"typed":        func(log *texts) []kopf.Option { return []kopf.Option{typed(log)} },
		"unstructured": func(log *texts) []kopf.Option { return []kopf.Option{untyped(log)} },
		"metadata": func(log *texts) []kopf.Option {
			return []kopf.Option{kopf.For(kopf.Metadata(gvk)).OnCreate("create", func(_ context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
				log.addf("create default/%s", req.Object.GetName())
				return nil
			})}
		},
		"when served": func(log *texts) []kopf.Option { return []kopf.Option{typed(log, kopf.WhenServed())} },
		"for kinds": func(log *texts) []kopf.Option {
			return []kopf.Option{kopf.ForKinds(kopf.Kinds("configmaps"), func(metav1.APIResource) kopf.Option { return untyped(log) })}
		},
		"namespaces":     func(log *texts) []kopf.Option { return []kopf.Option{typed(log), kopf.WithNamespaces("default")} },
		"watch selector": func(log *texts) []kopf.Option { return []kopf.Option{typed(log), kopf.WithWatchSelector("!other")} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, log := shardCluster(t), &texts{}
				var shards []*serverSideShard
				for index := range 2 {
					shards = append(shards, startServerSide(t, c, index, 3, declare(log)...)) // the last shard is missing
				}
				<-time.After(time.Minute)
				var want []string
				for i := range 20 {
					obj := mapIn("default", fmt.Sprintf("m%02d", i))
					c.Create(t, obj)
					if slices.ContainsFunc(shards, func(s *serverSideShard) bool { return s.selects(t, obj) }) {
						want = append(want, "create default/"+obj.Name)
					}
				}
				expectTexts(t, log, strings.Join(want, ", "))
				if len(want) == 0 || len(want) == 20 {
					t.Errorf("the two processes have %d of 20 objects, want a part", len(want))
				}
				for _, shard := range shards {
					if err := shard.stop(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
