package sharding_test

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

func TestServerSide_Check(t *testing.T) {
	for name, c := range map[string]struct {
		ring sharding.Ring
		err  string
	}{
		"valid":            {sharding.ServerSide("databases", 2, 3, sharding.LeaseNamespace("ns")), ""},
		"one shard":        {sharding.ServerSide("databases", 0, 1), ""},
		"empty name":       {sharding.ServerSide("", 0, 1), `ServerSide(""): the name is not valid`},
		"no shards":        {sharding.ServerSide("databases", 0, 0), "total must be positive, got 0"},
		"negative total":   {sharding.ServerSide("databases", 0, -1), "total must be positive, got -1"},
		"index too large":  {sharding.ServerSide("databases", 3, 3), "the index must be between 0 and 2, got 3"},
		"negative index":   {sharding.ServerSide("databases", -1, 3), "the index must be between 0 and 2, got -1"},
		"name of a shard":  {sharding.ServerSide("databases", 0, 3, sharding.ShardName("a")), "ShardName is not possible with ServerSide"},
		"nil option":       {sharding.ServerSide("databases", 0, 3, nil), `ServerSide("databases"): an option is nil`},
		"no namespace":     {sharding.ServerSide("databases", 0, 3, sharding.LeaseNamespace("")), "LeaseNamespace is empty"},
		"no constructor":   {sharding.Ring{}, "create it with ControllerRing or ServerSide"},
		"controllers' one": {sharding.ControllerRing("databases"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.ring.Check()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("Check() = %v, want %q", err, c.err)
			}
		})
	}
}

func TestServerSide_Shard(t *testing.T) {
	t.Setenv("POD_NAME", "other")
	ring := sharding.ServerSide(strings.Repeat("a", 63), 12, 20)
	if shard, err := ring.Shard(); err != nil || shard != strings.Repeat("a", 63)+"-12" {
		t.Errorf("Shard() = %q, %v, want the name of the ring and the index", shard, err)
	}
	if ring.Total() != 20 || sharding.ControllerRing("databases").Total() != 0 || sharding.ControllerRing("databases").Selector() != nil {
		t.Error("only ServerSide must have a total and a selector")
	}
}

// The documentation of ListOptions.ShardSelector has these expressions.
func TestServerSide_Selector(t *testing.T) {
	for _, c := range []struct {
		index, total int
		start, end   string
	}{
		{0, 1, "0x0000000000000000", "0x10000000000000000"},
		{0, 2, "0x0000000000000000", "0x8000000000000000"},
		{1, 2, "0x8000000000000000", "0x10000000000000000"},
		{2, 4, "0x8000000000000000", "0xc000000000000000"},
		{1, 3, "0x5555555555555555", "0xaaaaaaaaaaaaaaaa"},
	} {
		want := fmt.Sprintf("shardRange(object.metadata.uid, '%s', '%s')", c.start, c.end)
		if got := sharding.ServerSide("databases", c.index, c.total).Selector().String(); got != want {
			t.Errorf("selector of %d of %d = %s, want %s", c.index, c.total, got, want)
		}
	}
}

func TestServerSide_RangesAreEqualAndComplete(t *testing.T) {
	parse := func(text string) *big.Int {
		value, ok := new(big.Int).SetString(text, 0)
		if !ok {
			t.Fatalf("%q is not a number", text)
		}
		return value
	}
	for total := 1; total <= 64; total++ {
		ideal := new(big.Int).Div(parse("0x10000000000000000"), big.NewInt(int64(total)))
		next := big.NewInt(0)
		for index := range total {
			one := sharding.ServerSide("databases", index, total).Selector().Requirements()[0]
			if start := parse(one.Start); start.Cmp(next) != 0 {
				t.Errorf("%d of %d begins at %x, want %x", index, total, start, next)
			}
			size := new(big.Int).Sub(parse(one.End), next)
			if size.Sub(size, ideal); size.Sign() < 0 || size.Cmp(big.NewInt(1)) > 0 {
				t.Errorf("%d of %d has %s hashes more than the others", index, total, size)
			}
			next = parse(one.End)
		}
		if next.Cmp(parse("0x10000000000000000")) != 0 {
			t.Errorf("the ranges of %d end at %x", total, next)
		}
	}
}

// Exactly one shard selects an object, by the FNV-1a hash that the documentation of the API describes.
func TestServerSide_EachObjectHasOneShard(t *testing.T) {
	for i := range 1000 {
		uid := fmt.Sprintf("%08x-0000-4000-8000-%012x", i*7919, i)
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(uid))
		for _, total := range []int{1, 2, 3, 7, 64} {
			product := new(big.Int).Mul(new(big.Int).SetUint64(hash.Sum64()), big.NewInt(int64(total)))
			want := int(product.Rsh(product, 64).Int64()) // the bounds are rounded down, which matters only for hashes on a bound
			for index := range total {
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid)}}
				selected, err := sharding.ServerSide("databases", index, total).Selector().Matches(obj)
				if err != nil || selected != (index == want) {
					t.Fatalf("shard %d of %d selects %s: %t, %v; want shard %d", index, total, uid, selected, err, want)
				}
			}
		}
	}
}
