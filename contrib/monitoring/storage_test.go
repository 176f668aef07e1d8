package monitoring

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

var (
	promQL = parser.NewParser(parser.Options{})
	engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	start  = time.Unix(1_700_000_000, 0)
)

// minutes is a sample of a float at a number of minutes after the start.
func minutes(n int, value float64) chunks.Sample {
	return sample{at: start.Add(time.Duration(n) * time.Minute).UnixMilli(), value: value}
}

type sample struct {
	at    int64
	value float64
}

func (s sample) ST() int64                   { return 0 }
func (s sample) T() int64                    { return s.at }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// database holds series in memory. It implements storage.Queryable and storage.Querier.
type database []storage.Series

func (d database) Querier(_, _ int64) (storage.Querier, error) { return d, nil }
func (database) Close() error                                  { return nil }

func (d database) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{next: -1}
	for _, s := range d {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			found.series = append(found.series, s)
		}
	}
	if sorted {
		slices.SortFunc(found.series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	}
	return found
}

func (database) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

func (database) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool                      { s.next++; return s.next < len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.next] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// scrape returns the labels of a series in Prometheus. The labels __job__ and __pod__ set those of the target.
func scrape(exposed labels.Labels) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	exposed.Range(func(l labels.Label) { b.Set(scrapedLabel(l.Name), l.Value) })
	job, pod := exposed.Get("__job__"), exposed.Get("__pod__")
	if job == "" {
		job = "databases"
	}
	if pod == "" {
		pod = job + "-0"
	}
	for name, value := range map[string]string{
		"namespace": "databases-system", "job": job, "service": job, "pod": pod, "container": "manager", "endpoint": "https", "instance": "10.0.0.1:8443",
	} {
		b.Set(name, value)
	}
	return b.Del("__job__", "__pod__").Labels()
}

// parseSeries returns the series that an operator exposes, in the notation of "promtool test rules", with one sample in each minute.
func parseSeries(t testing.TB, all map[string]family, texts ...string) database {
	t.Helper()
	g := NewWithT(t)
	var d database
	for _, text := range texts {
		exposed, values, err := promQL.ParseSeriesDesc(text)
		g.Expect(err).NotTo(HaveOccurred(), text)
		scraped := scrape(exposed)
		f, found := all[scraped.Get("__name__")]
		g.Expect(found).To(BeTrue(), "%s: unknown metric", text)
		scraped.Range(func(l labels.Label) {
			g.Expect(append(f.labels, "__name__")).To(ContainElement(l.Name), text)
		})
		var samples []chunks.Sample
		for n, v := range values {
			if !v.Omitted {
				samples = append(samples, minutes(n, v.Value))
			}
		}
		d = append(d, storage.NewListSeries(scraped, samples))
	}
	return d
}

// history returns series of all metrics for a number of minutes. Counters increase, gauges are constant.
func history(families []*dto.MetricFamily, length int) database {
	var d database
	add := func(name string, m *dto.Metric, value float64, increases bool, more ...string) {
		b := labels.NewBuilder(labels.FromStrings(append(more, "__name__", name)...))
		for _, l := range m.GetLabel() {
			b.Set(l.GetName(), l.GetValue())
		}
		var samples []chunks.Sample
		for n := range length {
			if factor := float64(n + 1); increases {
				samples = append(samples, minutes(n, value*factor))
			} else {
				samples = append(samples, minutes(n, value))
			}
		}
		d = append(d, storage.NewListSeries(scrape(b.Labels()), samples))
	}
	for _, f := range families {
		name := f.GetName()
		for _, m := range f.GetMetric() {
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				add(name, m, m.GetCounter().GetValue(), true)
			case dto.MetricType_GAUGE:
				add(name, m, m.GetGauge().GetValue(), false)
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				add(name+"_sum", m, h.GetSampleSum(), true)
				add(name+"_count", m, float64(h.GetSampleCount()), true)
				for _, bucket := range h.GetBucket() {
					add(name+"_bucket", m, float64(bucket.GetCumulativeCount()), true, "le", strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64))
				}
				if buckets := h.GetBucket(); len(buckets) == 0 || !math.IsInf(buckets[len(buckets)-1].GetUpperBound(), 1) {
					add(name+"_bucket", m, float64(h.GetSampleCount()), true, "le", "+Inf")
				}
			default: // no expression uses summaries
			}
		}
	}
	return d
}

// query evaluates an expression at a number of minutes after the start.
func query(ctx context.Context, d database, expression string, minute int) (promql.Vector, error) {
	q, err := engine.NewInstantQuery(ctx, d, nil, expression, start.Add(time.Duration(minute)*time.Minute))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace(expression), result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		return nil, err
	}
	return slices.Clone(vector), nil // the query reuses its result after Close
}
