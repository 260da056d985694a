-- the matrix product as join and group-by
SELECT A.i0, B.i1, SUM(A.val * B.val) AS val FROM A JOIN B ON A.i1 = B.i0 GROUP BY A.i0, B.i1;
-- the groups are those that exist, also where the sum is zero
SELECT A.i0, B.i1, COUNT(*) AS n, SUM(A.val * B.val) AS s, AVG(A.val * B.val) AS m, MIN(A.val + B.val) AS lo, MAX(A.val - B.val) AS hi FROM A, B WHERE A.i1 = B.i0 GROUP BY ALL;
SELECT A.i0, SUM(A.val * B.val * C.val) FROM A, B, C WHERE A.i1 = B.i0 AND B.i1 = C.i0 AND C.i1 = A.i0 GROUP BY A.i0;
-- triangles
SELECT COUNT(*) FROM G a, G b, G c WHERE a.i1 = b.i0 AND b.i1 = c.i0 AND c.i1 = a.i0;
SELECT a.i0, COUNT(*) AS n FROM G a JOIN G b ON a.i1 = b.i0 JOIN G c ON b.i1 = c.i0 AND c.i1 = a.i0 GROUP BY a.i0 ORDER BY n DESC, 1 LIMIT 4;
SELECT a.i0, b.i1, COUNT(*) FROM G a JOIN G b ON a.i1 = b.i0 WHERE a.i0 < b.i1 GROUP BY 1, 2;
-- trace of a product, masks, norms
SELECT SUM(A.val * B.val) FROM A, (SELECT i1 AS i0, i0 AS i1, val FROM A) B WHERE A.i1 = B.i0 AND A.i0 = B.i1;
SELECT A.i0, SUM(A.val * V.val) FROM A JOIN V ON A.i1 = V.i0 GROUP BY A.i0;
SELECT B.i0, B.i1, B.val FROM B SEMI JOIN M ON B.i0 = M.i0 AND B.i1 = M.i1;
SELECT SUM(A.val * A2.val) FROM A JOIN A A2 ON A.i0 = A2.i0 AND A.i1 = A2.i1;
SELECT * FROM A WHERE i0 = 3;
SELECT i1, val FROM A WHERE i0 = i1 ORDER BY i1;
SELECT i0, i1, i2, val FROM T WHERE i1 BETWEEN 1 AND 2 AND val > 0;
SELECT i2, SUM(val), COUNT(*), MAX(val) FROM T GROUP BY i2 HAVING COUNT(*) > 2;
SELECT x.i0, y.i0, COUNT(*), SUM(x.val * y.val) FROM T x JOIN T y ON x.i1 = y.i1 AND x.i2 = y.i2 GROUP BY x.i0, y.i0;
-- a fill that is not zero: rows are the entries that differ from it
SELECT COUNT(*), SUM(val), MIN(i0), MAX(i1) FROM F;
SELECT F.i0, COUNT(*) FROM F JOIN A ON F.i1 = A.i0 GROUP BY F.i0;
-- an empty tensor
SELECT COUNT(*), SUM(val), AVG(val), MIN(i0) FROM E;
SELECT E.i0, SUM(E.val * B.val) FROM E JOIN B ON E.i1 = B.i0 GROUP BY E.i0;
SELECT SUM(E.val * B.val), COUNT(*) FROM E JOIN B ON E.i1 = B.i0;
SELECT A.i0, E.val FROM A LEFT JOIN E ON A.i0 = E.i0 AND A.i1 = E.i1;
-- integer and boolean entries
SELECT i0, SUM(val), AVG(val) FROM G GROUP BY i0 ORDER BY i0;
SELECT val, COUNT(*) FROM M GROUP BY val;
SELECT a.i0, b.i1, SUM(a.val * b.val) FROM G a, G b WHERE a.i1 = b.i0 GROUP BY a.i0, b.i1;
-- overlay: full outer join of two matrices
SELECT COALESCE(A.i0, C.i1) AS r, COALESCE(A.i1, C.i0) AS c, COALESCE(A.val, 0) + COALESCE(C.val, 0) AS v FROM A FULL JOIN C ON A.i0 = C.i1 AND A.i1 = C.i0;
-- joins on values and on both
SELECT COUNT(*) FROM A JOIN B ON A.val = B.val;
SELECT A.i0, A.i1, B.i0 FROM A JOIN B ON A.val = B.val AND A.i0 = B.i1;
SELECT A.i0, B.i0, COUNT(*) FROM A JOIN B ON A.i1 <= B.i0 AND B.i0 <= A.i1 + 1 GROUP BY A.i0, B.i0;
SELECT A.i0 FROM A JOIN V ON A.i0 = V.val;
-- a product within a query
WITH P AS (SELECT A.i0, B.i1, SUM(A.val * B.val) AS val FROM A JOIN B ON A.i1 = B.i0 GROUP BY A.i0, B.i1) SELECT P.i0, SUM(P.val * C.val) AS t FROM P JOIN C ON P.i1 = C.i0 GROUP BY P.i0 HAVING SUM(P.val * C.val) > 0 ORDER BY t DESC;
SELECT i0 % 3 AS k, SUM(val) FROM A GROUP BY k ORDER BY k;
SELECT i0, SUM(val) FILTER (WHERE val > 0) AS up, SUM(val) FILTER (WHERE val < 0) AS down FROM A GROUP BY i0;
SELECT SUM(A.val * V.val) / COUNT(*) FROM A, V WHERE A.i1 = V.i0 AND A.val > 0;
SELECT A.i0, SUM(A.val * B.val) FROM A, B WHERE A.i1 = B.i0 AND B.i1 IN (1, 3, 4) AND A.i0 <> 2 GROUP BY A.i0;
SELECT A.i0, SUM(A.val * 2 + B.val) AS s FROM A, B WHERE A.i1 = B.i0 AND A.val < B.val GROUP BY A.i0;
SELECT MAX(A.val * B.val), MIN(A.i0) FROM A, B WHERE A.i1 = B.i0;
