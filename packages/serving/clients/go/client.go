// Package serving calls servers of the Open Inference Protocol over HTTP. Tensors travel
// as raw bytes (the binary tensor extension). It needs the standard library alone.
//
//	client, err := serving.Dial(serving.Options{Addresses: []string{"127.0.0.1:8000"}})
//	x, err := serving.New("x", []int64{1, 4}, []float32{1, 2, 3, 4})
//	answer, err := client.Infer(ctx, serving.Request{Model: "small", Inputs: []serving.Tensor{x}})
//	y, err := serving.Values[float32](answer.Outputs["y"])
package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const lengthHeader = "Inference-Header-Content-Length"

// Retry says how often a request is sent again after 429, 503 or a broken connection.
type Retry struct {
	Attempts int           // times in all; 3 where 0
	First    time.Duration // pause before the second, doubled each time; 20 ms where 0
	Budget   float64       // further tries for each request, over time; 0.1 where 0
	Reserve  float64       // further tries that may be saved up; 10 where 0
}

// Options of a client. Only Addresses must be set.
type Options struct {
	Addresses []string // host:port, or unix:path
	Weights   []float64
	APIKey    string
	TLS       *tls.Config // HTTPS, where it is set
	Retry     Retry
	Idle      int // connections that are kept for each address; 32 where 0
}

// Client sends requests to one server or several. It is safe for concurrent use.
type Client struct {
	options Options
	spread  *spread
	http    []*http.Client
	scheme  string
}

// Error is what a server answered instead of a result.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Message) }

// Dial makes a client; connections are opened as they are needed.
func Dial(options Options) (*Client, error) {
	retry := &options.Retry
	if retry.Attempts == 0 {
		retry.Attempts = 3
	}
	if retry.First == 0 {
		retry.First = 20 * time.Millisecond
	}
	if retry.Budget == 0 {
		retry.Budget = 0.1
	}
	if retry.Reserve == 0 {
		retry.Reserve = 10
	}
	if options.Idle == 0 {
		options.Idle = 32
	}
	spread, err := newSpread(options.Addresses, options.Weights, *retry)
	if err != nil {
		return nil, err
	}
	client := &Client{options: options, spread: spread, scheme: "http"}
	if options.TLS != nil {
		client.scheme = "https"
	}
	for _, address := range options.Addresses {
		transport := &http.Transport{
			TLSClientConfig:     options.TLS,
			MaxIdleConnsPerHost: options.Idle,
			IdleConnTimeout:     60 * time.Second, // servers close after 75 s
			DisableCompression:  true,
		}
		if path := strings.TrimPrefix(address, "unix:"); path != address {
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			}
		}
		client.http = append(client.http, &http.Client{Transport: transport})
	}
	return client, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() {
	for _, held := range c.http {
		held.CloseIdleConnections()
	}
}

// Request runs a model once. Without Outputs all of them are answered.
type Request struct {
	Model      string
	Version    string // the newest, where empty
	ID         string
	Inputs     []Tensor
	Outputs    []string
	Parameters map[string]interface{}
}

// Response is what the model gave, by name.
type Response struct {
	Model   string
	Version string
	ID      string
	Outputs map[string]Tensor
}

type tensorJSON struct {
	Name       string                 `json:"name"`
	Datatype   string                 `json:"datatype,omitempty"`
	Shape      *[]int64               `json:"shape,omitempty"` // of a scalar: empty, not absent
	Parameters map[string]interface{} `json:"parameters,omitempty"`
}

type bodyJSON struct {
	ID         string                 `json:"id,omitempty"`
	Model      string                 `json:"model_name,omitempty"`
	Version    string                 `json:"model_version,omitempty"`
	Parameters map[string]interface{} `json:"parameters,omitempty"`
	Inputs     []tensorJSON           `json:"inputs,omitempty"`
	Outputs    []tensorJSON           `json:"outputs,omitempty"`
}

// Infer runs a model. The context bounds all tries together.
func (c *Client) Infer(ctx context.Context, request Request) (*Response, error) {
	body, length, err := encode(request)
	if err != nil {
		return nil, err
	}
	header := http.Header{
		"Content-Type": {"application/octet-stream"},
		lengthHeader:   {strconv.Itoa(length)},
	}
	path := modelPath(request.Model, request.Version) + "/infer"
	data, got, err := c.retried(ctx, http.MethodPost, path, body, header)
	if err != nil {
		return nil, err
	}
	return decode(data, got.Get(lengthHeader))
}

// Live reports whether a server runs.
func (c *Client) Live(ctx context.Context) bool { return c.isOK(ctx, "/v2/health/live") }

// Ready reports whether a server answers requests.
func (c *Client) Ready(ctx context.Context) bool { return c.isOK(ctx, "/v2/health/ready") }

// ModelReady reports whether a model answers; false also where it is not known.
func (c *Client) ModelReady(ctx context.Context, model, version string) bool {
	return c.isOK(ctx, modelPath(model, version)+"/ready")
}

// Metadata is what a model takes and gives.
type Metadata struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
	Platform string   `json:"platform"`
	Inputs   []Spec   `json:"inputs"`
	Outputs  []Spec   `json:"outputs"`
}

// Spec is what a model takes or gives under one name.
type Spec struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// Metadata describes a model; -1 in a shape is any size.
func (c *Client) Metadata(ctx context.Context, model, version string) (*Metadata, error) {
	data, _, err := c.retried(ctx, http.MethodGet, modelPath(model, version), nil, nil)
	if err != nil {
		return nil, err
	}
	found := &Metadata{}
	return found, json.Unmarshal(data, found)
}

// Load loads a model as its files are now, where the server allows that.
func (c *Client) Load(ctx context.Context, model string) error {
	return c.control(ctx, model, "load")
}

// Unload ends the serving of a model, where the server allows that.
func (c *Client) Unload(ctx context.Context, model string) error {
	return c.control(ctx, model, "unload")
}

func (c *Client) control(ctx context.Context, model, what string) error {
	path := "/v2/repository/models/" + url.PathEscape(model) + "/" + what
	_, _, err := c.send(ctx, c.spread.next(-1), http.MethodPost, path, nil, nil)
	return err
}

func (c *Client) isOK(ctx context.Context, path string) bool {
	_, _, err := c.send(ctx, c.spread.next(-1), http.MethodGet, path, nil, nil)
	return err == nil
}

func modelPath(model, version string) string {
	path := "/v2/models/" + url.PathEscape(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

// retried sends a request, again where that may help and the budget allows it.
func (c *Client) retried(
	ctx context.Context, method, path string, body []byte, header http.Header,
) ([]byte, http.Header, error) {
	c.spread.begin()
	pause := c.options.Retry.First
	for attempt, index := 1, -1; ; attempt++ {
		index = c.spread.next(index)
		data, got, err := c.send(ctx, index, method, path, body, header)
		if err == nil || ctx.Err() != nil || !isPassing(err) {
			return data, got, err
		}
		if attempt >= c.options.Retry.Attempts || !c.spread.mayRetry() {
			return nil, nil, err
		}
		timer := time.NewTimer(time.Duration(rand.Int63n(int64(pause) + 1)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, ctx.Err()
		case <-timer.C:
		}
		pause *= 2
	}
}

// isPassing reports whether the same request may succeed later, or elsewhere.
func isPassing(err error) bool {
	var held *Error
	if errors.As(err, &held) {
		return held.Status == http.StatusServiceUnavailable || held.Status == http.StatusTooManyRequests
	}
	return true // There was no answer.
}

func (c *Client) send(
	ctx context.Context, index int, method, path string, body []byte, header http.Header,
) ([]byte, http.Header, error) {
	host := c.options.Addresses[index]
	if strings.HasPrefix(host, "unix:") {
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, method, c.scheme+"://"+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if c.options.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.APIKey)
	}
	answer, err := c.http[index].Do(request)
	if err != nil {
		c.spread.failed(index)
		return nil, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		c.spread.failed(index)
		return nil, nil, err
	}
	if answer.StatusCode != http.StatusOK {
		if answer.StatusCode == http.StatusServiceUnavailable {
			c.spread.failed(index)
		}
		return nil, nil, errorOf(answer.StatusCode, data)
	}
	return data, answer.Header, nil
}

func errorOf(status int, data []byte) error {
	var held struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(data, &held) != nil || held.Error == "" {
		held.Error = string(data)
	}
	return &Error{Status: status, Message: held.Error}
}

// encode is a request's body, and the length of the JSON before its tensors.
func encode(request Request) ([]byte, int, error) {
	head := bodyJSON{ID: request.ID, Parameters: map[string]interface{}{}}
	for name, value := range request.Parameters {
		head.Parameters[name] = value
	}
	head.Parameters["binary_data_output"] = true
	size := 0
	for _, tensor := range request.Inputs {
		head.Inputs = append(head.Inputs, tensorJSON{
			tensor.Name, tensor.Datatype, shapeOf(tensor),
			map[string]interface{}{"binary_data_size": len(tensor.Data)},
		})
		size += len(tensor.Data)
	}
	for _, name := range request.Outputs {
		head.Outputs = append(head.Outputs, tensorJSON{Name: name})
	}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, 0, err
	}
	body := make([]byte, 0, len(text)+size)
	body = append(body, text...)
	for _, tensor := range request.Inputs {
		body = append(body, tensor.Data...)
	}
	return body, len(text), nil
}

func shapeOf(tensor Tensor) *[]int64 {
	shape := tensor.Shape
	if shape == nil {
		shape = []int64{}
	}
	return &shape
}

// decode is the response in a body.
func decode(data []byte, said string) (*Response, error) {
	length := len(data)
	if said != "" {
		var err error
		if length, err = strconv.Atoi(said); err != nil || length < 0 || length > len(data) {
			return nil, fmt.Errorf("[response] expected %s of at most %d, got %q", lengthHeader, len(data), said)
		}
	}
	var head bodyJSON
	if err := json.Unmarshal(data[:length], &head); err != nil {
		return nil, fmt.Errorf("[response] expected JSON: %w", err)
	}
	response := &Response{head.Model, head.Version, head.ID, map[string]Tensor{}}
	left := data[length:]
	for _, held := range head.Outputs {
		size, ok := held.Parameters["binary_data_size"].(float64)
		if !ok || size < 0 || size > float64(len(left)) {
			return nil, fmt.Errorf("[output %s] expected binary data within %d bytes", held.Name, len(left))
		}
		if held.Shape == nil {
			return nil, fmt.Errorf("[output %s] expected a shape", held.Name)
		}
		tensor := Tensor{held.Name, held.Datatype, *held.Shape, left[:int(size)]}
		response.Outputs[held.Name], left = tensor, left[int(size):]
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("[response] expected no bytes after the tensors, got %d", len(left))
	}
	return response, nil
}
