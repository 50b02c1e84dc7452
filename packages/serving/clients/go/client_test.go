package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func dial(t *testing.T, options Options) *Client {
	t.Helper()
	client, err := Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func roundTrip[T Element](t *testing.T, values []T) {
	t.Helper()
	tensor := must(New("x", []int64{int64(len(values))}, values))
	if got := must(Values[T](tensor)); !reflect.DeepEqual(got, values) {
		t.Errorf("expected %v, got %v", values, got)
	}
}

func TestElementsComeBackAsTheyWere(t *testing.T) {
	roundTrip(t, []bool{true, false})
	roundTrip(t, []int8{-128, 127})
	roundTrip(t, []int64{-1 << 62, 3})
	roundTrip(t, []uint16{0, 65535})
	roundTrip(t, []float32{1.5, -0.25})
	roundTrip(t, []float64{1e300})
	held := [][]byte{[]byte("ab"), {}, {0, 255}}
	tensor := must(FromBytes("x", []int64{3}, held))
	if got := must(ToBytes(tensor)); !reflect.DeepEqual(got, held) {
		t.Errorf("expected %v, got %v", held, got)
	}
}

func TestWhatIsNoTensorIsRefused(t *testing.T) {
	_, few := New("x", []int64{3}, []float32{1})
	_, negative := New("x", []int64{-1}, []float32{1})
	_, kind := Values[int32](must(New("x", []int64{1}, []float32{1})))
	_, short := Values[float32](Tensor{"x", "FP32", []int64{2}, []byte{1}})
	_, large := Values[float32](Tensor{"x", "FP32", []int64{1 << 40, 1 << 40}, nil})
	_, cut := ToBytes(Tensor{"x", "BYTES", []int64{1}, []byte{9, 0, 0, 0, 1}})
	_, length := ToBytes(Tensor{"x", "BYTES", []int64{1}, []byte{9}})
	for at, err := range []error{few, negative, kind, short, large, cut, length} {
		if err == nil || !strings.HasPrefix(err.Error(), "[tensor x] ") {
			t.Errorf("case %d: expected an error, got %v", at, err)
		}
	}
	if _, err := Dial(Options{}); err == nil {
		t.Error("expected an error without addresses")
	}
	if _, err := Dial(Options{Addresses: []string{"a:1"}, Weights: []float64{0}}); err == nil {
		t.Error("expected an error for a weight of 0")
	}
}

func TestResponsesThatAreNoneAreRefused(t *testing.T) {
	bad := []struct{ body, length string }{
		{"", ""}, {"{", ""}, {"{}", "3"}, {"{}", "-1"}, {"{}", "x"}, {"{}x", "2"},
		{`{"outputs":[{"name":"y","datatype":"FP32","shape":[1]}]}`, ""},
		{`{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}`, ""},
		{`{"outputs":[{"name":"y","parameters":{"binary_data_size":0}}]}`, ""},
	}
	for _, held := range bad {
		if _, err := decode([]byte(held.body), held.length); err == nil {
			t.Errorf("expected an error for %q, %q", held.body, held.length)
		}
	}
}

// scripted answers with statuses in turn, and 200 once they are used up.
func scripted(t *testing.T, statuses ...int) (*httptest.Server, *int64) {
	t.Helper()
	var served int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		at := int(atomic.AddInt64(&served, 1)) - 1
		if at < len(statuses) && statuses[at] != 200 {
			w.WriteHeader(statuses[at])
			fmt.Fprint(w, `{"error": "[scripted] no"}`)
			return
		}
		fmt.Fprint(w, `{"model_name": "m"}`)
	}))
	t.Cleanup(server.Close)
	return server, &served
}

func address(server *httptest.Server) string { return strings.TrimPrefix(server.URL, "http://") }

var quick = Retry{First: time.Millisecond}

func TestPassingErrorsAreTriedAgainAndOthersAreNot(t *testing.T) {
	server, served := scripted(t, 503, 429, 200, 400)
	client := dial(t, Options{Addresses: []string{address(server)}, Retry: quick})
	if _, err := client.Infer(context.Background(), Request{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	_, err := client.Infer(context.Background(), Request{Model: "m"})
	var held *Error
	if !errors.As(err, &held) || held.Status != 400 || held.Message != "[scripted] no" {
		t.Errorf("expected the server's error, got %v", err)
	}
	if *served != 4 {
		t.Errorf("expected 4 requests, got %d", *served)
	}
}

func TestTheBudgetBoundsFurtherTries(t *testing.T) {
	statuses := make([]int, 1000)
	for at := range statuses {
		statuses[at] = 429
	}
	server, served := scripted(t, statuses...)
	retry := Retry{First: time.Nanosecond, Budget: 0.1, Reserve: 5}
	client := dial(t, Options{Addresses: []string{address(server)}, Retry: retry})
	for i := 0; i < 100; i++ {
		client.Infer(context.Background(), Request{Model: "m"})
	}
	if *served < 105 || *served > 116 { // 100 requests, 5 saved, 1 for each 10
		t.Errorf("expected 105 to 116 requests, got %d", *served)
	}
}

func TestWeightsShareRequestsAndAServerThatIsGoneIsLeft(t *testing.T) {
	one, first := scripted(t)
	two, second := scripted(t)
	both := []string{address(one), address(two)}
	client := dial(t, Options{Addresses: both, Weights: []float64{3, 1}, Retry: quick})
	for i := 0; i < 40; i++ {
		must(client.Infer(context.Background(), Request{Model: "m"}))
	}
	if *first != 30 || *second != 10 {
		t.Errorf("expected 30 and 10, got %d and %d", *first, *second)
	}
	one.Close()
	for i := 0; i < 20; i++ {
		must(client.Infer(context.Background(), Request{Model: "m"}))
	}
	if *second != 30 {
		t.Errorf("expected 30, got %d", *second)
	}
}

func TestTheContextBoundsAllTries(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	client := dial(t, Options{Addresses: []string{address(server)}})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Infer(ctx, Request{Model: "m"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected the deadline, got %v", err)
	}
}

// TestServer talks to a server whose model "linear" is y = x @ weight + bias, of 4 to 3.
func TestServer(t *testing.T) {
	where := os.Getenv("PROA_SERVING_ADDRESS")
	if where == "" {
		t.Skip("PROA_SERVING_ADDRESS is not set")
	}
	ctx := context.Background()
	client := dial(t, Options{Addresses: []string{where}, APIKey: os.Getenv("PROA_SERVING_KEY")})
	if !client.Live(ctx) || !client.Ready(ctx) || !client.ModelReady(ctx, "linear", "1") {
		t.Fatal("expected the server and its model to be ready")
	}
	if client.ModelReady(ctx, "absent", "") {
		t.Error("expected no model of that name")
	}
	about := must(client.Metadata(ctx, "linear", ""))
	want := Spec{"x", "FP32", []int64{-1, 4}}
	if !reflect.DeepEqual(about.Inputs, []Spec{want}) {
		t.Errorf("expected %v, got %v", want, about.Inputs)
	}
	x := must(New("x", []int64{2, 4}, []float32{0, 0, 0, 0, 1, 0, 0, 0}))
	request := Request{Model: "linear", ID: "7", Inputs: []Tensor{x}}
	answer := must(client.Infer(ctx, request))
	y := must(Values[float32](answer.Outputs["y"]))
	labels := must(Values[int64](answer.Outputs["label"]))
	if answer.Model != "linear" || answer.Version != "1" || answer.ID != "7" || len(labels) != 2 {
		t.Errorf("got %+v", answer)
	}
	fmt.Printf("y %v\n", y)
	request.Outputs = []string{"label"}
	if answer = must(client.Infer(ctx, request)); len(answer.Outputs) != 1 {
		t.Errorf("expected one output, got %v", answer.Outputs)
	}
	request.Version = "9"
	var held *Error
	if _, err := client.Infer(ctx, request); !errors.As(err, &held) || held.Status != 404 {
		t.Errorf("expected 404, got %v", err)
	}
	text := must(FromBytes("text", []int64{2}, [][]byte{[]byte("ab"), []byte("zoë")}))
	answer = must(client.Infer(ctx, Request{Model: "text", Inputs: []Tensor{text}}))
	lengths := must(Values[int32](answer.Outputs["length"]))
	if !reflect.DeepEqual(lengths, []int32{2, 4}) {
		t.Errorf("expected [2 4], got %v", lengths)
	}
	if back := must(ToBytes(answer.Outputs["back"])); string(back[0]) != "ba" {
		t.Errorf("expected ba, got %q", back[0])
	}
}
